#include "json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "utf8.h"

struct reader {
    struct arena *arena;
    const char *data;
    size_t length, place, values;
    struct json_problem *problem;
};

static struct json *read_value(struct reader *reader, int depth);

/* The next byte, or NUL at the end: data[length] is one, and no NUL is valid anywhere in JSON. */
static char peek(const struct reader *reader) { return reader->data[reader->place]; }

static int refuse(struct reader *reader, const char *text)
{
    if (reader->problem->text[0] == '\0') {
        reader->problem->position = reader->place;
        snprintf(reader->problem->text, sizeof reader->problem->text, "%s", text);
    }
    return 0;
}

static void skip_space(struct reader *reader)
{
    while (peek(reader) == ' ' || peek(reader) == '\t' || peek(reader) == '\n' || peek(reader) == '\r')
        reader->place++;
}

/* ---- strings ---- */

static int is_high_surrogate(uint64_t unit) { return unit >= 0xd800 && unit < 0xdc00; }
static int is_low_surrogate(uint64_t unit) { return unit >= 0xdc00 && unit < 0xe000; }

/* What stands behind `\u`: four digits, or a pair of surrogates. */
static int read_unicode(struct reader *reader, uint32_t *character)
{
    uint64_t unit, low;
    if (!json_hexadecimal(reader->data + reader->place, 4, &unit))
        return refuse(reader, "four hexadecimal digits were expected");
    reader->place += 4;
    if (is_high_surrogate(unit) && peek(reader) == '\\' && reader->data[reader->place + 1] == 'u' &&
        json_hexadecimal(reader->data + reader->place + 2, 4, &low) && is_low_surrogate(low)) {
        reader->place += 6;
        *character = (uint32_t)(0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00));
        return 1;
    }
    if (is_high_surrogate(unit) || is_low_surrogate(unit))
        return refuse(reader, "a lone surrogate stands in a string");
    *character = (uint32_t)unit;
    return 1;
}

static int read_escape(struct reader *reader, uint32_t *character)
{
    static const char written[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    char c = peek(reader);
    const char *found = c ? strchr(written, c) : NULL;
    if (found != NULL) {
        reader->place++;
        *character = (unsigned char)meant[found - written];
        return 1;
    }
    if (c != 'u')
        return refuse(reader, "an unknown escape stands in a string");
    reader->place++;
    return read_unicode(reader, character);
}

/* Return how far the string that opens here reaches at most, so that its bytes can be reserved at once. */
static size_t room_of_string(const struct reader *reader)
{
    size_t end = reader->place;
    while (end < reader->length && reader->data[end] != '"')
        end += reader->data[end] == '\\' ? 2 : 1;
    return end - reader->place + 4;
}

static int read_string(struct reader *reader, struct json_text *text)
{
    if (peek(reader) != '"')
        return refuse(reader, "a string was expected");
    reader->place++;
    char *data = NEW_ARRAY(reader->arena, char, room_of_string(reader));
    size_t length = 0;
    while (peek(reader) != '"') {
        uint32_t character;
        size_t bytes = utf8_decode(reader->data + reader->place, reader->length - reader->place, &character);
        if (bytes == 0)
            return refuse(reader, reader->place < reader->length ? "this is not UTF-8" : "the text ends in a string");
        if (character < 0x20)
            return refuse(reader, "a control character stands in a string");
        reader->place += bytes;
        if (character == '\\' && !read_escape(reader, &character))
            return 0;
        length += utf8_encode(character, data + length);
    }
    reader->place++;
    *text = (struct json_text){data, length};
    return 1;
}

/* ---- numbers ---- */

static int is_digit(char c) { return c >= '0' && c <= '9'; }

static int skip_digits(struct reader *reader)
{
    if (!is_digit(peek(reader)))
        return refuse(reader, "a digit was expected");
    while (is_digit(peek(reader)))
        reader->place++;
    return 1;
}

/* Add up the digits; return 0 where they need more than 64 bits. */
static int magnitude_of(const char *digits, const char *end, uint64_t *magnitude)
{
    *magnitude = 0;
    for (; digits < end; digits++) {
        uint64_t digit = (uint64_t)(*digits - '0');
        if (*magnitude > (UINT64_MAX - digit) / 10)
            return 0;
        *magnitude = *magnitude * 10 + digit;
    }
    return 1;
}

static int read_number(struct reader *reader, struct json *value)
{
    const char *start = reader->data + reader->place;
    value->negative = peek(reader) == '-';
    reader->place += (size_t)value->negative;
    const char *digits = reader->data + reader->place;
    if (!skip_digits(reader))
        return 0;
    const char *end = reader->data + reader->place;
    if (*digits == '0' && end - digits > 1)
        return refuse(reader, "a number opens with a needless 0");
    int whole = 1;
    if (peek(reader) == '.') {
        whole = 0;
        reader->place++;
        if (!skip_digits(reader))
            return 0;
    }
    if (peek(reader) == 'e' || peek(reader) == 'E') {
        whole = 0;
        reader->place++;
        if (peek(reader) == '+' || peek(reader) == '-')
            reader->place++;
        if (!skip_digits(reader))
            return 0;
    }
    value->real = strtod(start, NULL);
    if (!isfinite(value->real))
        return refuse(reader, "a number is beyond the range of a double");
    whole = whole && magnitude_of(digits, end, &value->magnitude);
    value->kind = whole && !(value->negative && value->magnitude == 0) ? JSON_INTEGER : JSON_REAL;
    return 1;
}

/* ---- arrays and objects ---- */

static int compare_keys(const void *one, const void *other)
{
    struct json_text a = (*(const struct json *const *)one)->key, b = (*(const struct json *const *)other)->key;
    int order = memcmp(a.data, b.data, a.length < b.length ? a.length : b.length);
    return order != 0 ? order : (a.length > b.length) - (a.length < b.length);
}

/* Sorted, equal keys are neighbours: an object of many members takes no quadratic time. */
static int check_unique_keys(struct reader *reader, const struct json *object)
{
    const struct json **members = malloc((object->count + 1) * sizeof *members);
    if (members == NULL)
        return refuse(reader, "the memory does not suffice");
    size_t count = 0;
    int unique = 1;
    for (const struct json *member = object->first; member != NULL; member = member->next)
        members[count++] = member;
    qsort(members, count, sizeof *members, compare_keys);
    for (size_t i = 1; i < count && unique; i++)
        unique = compare_keys(&members[i - 1], &members[i]) != 0;
    free(members);
    return unique || refuse(reader, "a key stands twice in an object");
}

static int read_key(struct reader *reader, struct json_text *key)
{
    if (!read_string(reader, key))
        return 0;
    skip_space(reader);
    if (peek(reader) != ':')
        return refuse(reader, "a colon was expected");
    reader->place++;
    skip_space(reader);
    return 1;
}

/* Read items, or members where `close` is a brace, up to `close`. */
static int read_items(struct reader *reader, struct json *whole, char close, int depth)
{
    if (depth >= JSON_MAXIMUM_DEPTH)
        return refuse(reader, "the value is nested too deeply");
    reader->place++;
    skip_space(reader);
    if (peek(reader) == close) {
        reader->place++;
        return 1;
    }
    for (struct json **end = &whole->first;; whole->count++) {
        struct json_text key = {"", 0};
        if (close == '}' && !read_key(reader, &key))
            return 0;
        struct json *item = read_value(reader, depth + 1);
        if (item == NULL)
            return 0;
        item->key = key;
        *end = item;
        end = &item->next;
        skip_space(reader);
        char c = peek(reader);
        if (c != ',' && c != close)
            return refuse(reader, "a comma or the end of the list was expected");
        reader->place++;
        if (c == close) {
            whole->count++;
            return close != '}' || check_unique_keys(reader, whole);
        }
        skip_space(reader);
    }
}

/* ---- values ---- */

static int read_word(struct reader *reader, struct json *value, const char *word, enum json_kind kind)
{
    size_t length = strlen(word);
    if (strncmp(reader->data + reader->place, word, length) != 0)
        return refuse(reader, "a value was expected");
    reader->place += length;
    value->kind = kind;
    return 1;
}

static struct json *read_value(struct reader *reader, int depth)
{
    if (++reader->values > JSON_MAXIMUM_VALUES) {
        refuse(reader, "the text holds too many values");
        return NULL;
    }
    struct json *value = NEW(reader->arena, struct json);
    int fine;
    switch (peek(reader)) {
    case '{':
        value->kind = JSON_OBJECT;
        fine = read_items(reader, value, '}', depth);
        break;
    case '[':
        value->kind = JSON_ARRAY;
        fine = read_items(reader, value, ']', depth);
        break;
    case '"':
        value->kind = JSON_STRING;
        fine = read_string(reader, &value->string);
        break;
    case 't':
        fine = read_word(reader, value, "true", JSON_TRUE);
        break;
    case 'f':
        fine = read_word(reader, value, "false", JSON_FALSE);
        break;
    case 'n':
        fine = read_word(reader, value, "null", JSON_NULL);
        break;
    default:
        fine = peek(reader) == '-' || is_digit(peek(reader)) ? read_number(reader, value)
                                                             : refuse(reader, "a value was expected");
    }
    return fine ? value : NULL;
}

const struct json *json_parse(struct arena *arena, const char *data, size_t length, struct json_problem *problem)
{
    struct reader reader = {arena, data, length, 0, 0, problem};
    problem->text[0] = '\0';
    skip_space(&reader);
    const struct json *value = read_value(&reader, 0);
    if (value == NULL)
        return NULL;
    skip_space(&reader);
    if (reader.place == length)
        return value;
    refuse(&reader, "something stands behind the value");
    return NULL;
}
