/* Looking at values that have been read. */

#include <string.h>

#include "bits.h"
#include "json.h"

int json_hexadecimal(const char *digits, int count, uint64_t *value)
{
    *value = 0;
    for (int i = 0; i < count; i++) {
        char c = digits[i];
        int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (c >= 'A' && c <= 'F')
            digit = c - 'A' + 10;
        if (digit < 0)
            return 0; /* a NUL ends here, too */
        *value = *value << 4 | (uint64_t)digit;
    }
    return 1;
}

int json_is(const struct json *value, enum json_kind kind) { return value != NULL && value->kind == kind; }

int json_text_is(struct json_text text, const char *other)
{
    return text.length == strlen(other) && memcmp(text.data, other, text.length) == 0;
}

const struct json *json_member(const struct json *object, const char *key)
{
    if (!json_is(object, JSON_OBJECT))
        return NULL;
    for (const struct json *member = object->first; member != NULL; member = member->next)
        if (json_text_is(member->key, key))
            return member;
    return NULL;
}

int json_unsigned(const struct json *value, uint64_t limit, uint64_t *result)
{
    if (!json_is(value, JSON_INTEGER) || value->negative || value->magnitude > limit)
        return 0;
    *result = value->magnitude;
    return 1;
}

int json_bits(const struct json *value, double *result)
{
    uint64_t bits;
    if (!json_is(value, JSON_STRING) || value->string.length != 16 || !json_hexadecimal(value->string.data, 16, &bits))
        return 0;
    *result = double_of(bits);
    return 1;
}
