#include "inputs.h"

#include <string.h>

#include "failure.h"

enum { MAXIMUM_SIZE = 1 << 20 };

const struct json *input_array(const struct json *input, const char *name)
{
    const struct json *value = json_member(input, name);
    if (!json_is(value, JSON_ARRAY))
        fail("'%s' is not an array", name);
    return value;
}

uint64_t input_integer(const struct json *input, const char *name)
{
    uint64_t value;
    if (!json_unsigned(json_member(input, name), UINT64_MAX, &value))
        fail("'%s' is not an integer of 64 unsigned bits", name);
    return value;
}

size_t input_size(const struct json *input, const char *name)
{
    uint64_t value;
    if (!json_unsigned(json_member(input, name), MAXIMUM_SIZE, &value))
        fail("'%s' is not an integer from 0 to %d", name, MAXIMUM_SIZE);
    return (size_t)value;
}

double input_double(const struct json *input, const char *name)
{
    double value;
    if (!json_bits(json_member(input, name), &value))
        fail("'%s' is not a double in sixteen hexadecimal digits", name);
    return value;
}

struct tokens ids_of(struct arena *arena, const struct json *list, const char *name)
{
    if (!json_is(list, JSON_ARRAY))
        fail("'%s' is not a list of ids", name);
    struct tokens tokens = {NEW_ARRAY(arena, uint32_t, list->count + 1), 0};
    for (const struct json *item = list->first; item != NULL; item = item->next) {
        uint64_t id;
        if (!json_unsigned(item, UINT32_MAX, &id))
            fail("'%s' holds what is no id", name);
        tokens.ids[tokens.length++] = (uint32_t)id;
    }
    return tokens;
}

struct doubles doubles_of(struct arena *arena, const struct json *list, const char *name)
{
    if (!json_is(list, JSON_ARRAY))
        fail("'%s' is not a list of doubles", name);
    struct doubles doubles = {NEW_ARRAY(arena, double, list->count + 1), 0};
    for (const struct json *item = list->first; item != NULL; item = item->next)
        if (!json_bits(item, &doubles.values[doubles.count++]))
            fail("'%s' holds what is no double in sixteen hexadecimal digits", name);
    return doubles;
}

static int digit_of(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *found = c ? strchr(digits, c) : NULL;
    return found == NULL ? -1 : (int)(found - digits);
}

struct bytes bytes_of_hex(struct arena *arena, const struct json *text, const char *name)
{
    if (!json_is(text, JSON_STRING) || text->string.length % 2 != 0)
        fail("'%s' is not made of pairs of hexadecimal digits", name);
    char *data = NEW_ARRAY(arena, char, text->string.length / 2 + 1);
    for (size_t i = 0; i < text->string.length / 2; i++) {
        int high = digit_of(text->string.data[2 * i]), low = digit_of(text->string.data[2 * i + 1]);
        if (high < 0 || low < 0)
            fail("'%s' is not made of pairs of hexadecimal digits", name);
        data[i] = (char)(16 * high + low);
    }
    return (struct bytes){data, text->string.length / 2};
}
