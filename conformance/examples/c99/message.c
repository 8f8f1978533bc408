#include "message.h"

#include <inttypes.h>
#include <string.h>

#include "failure.h"

static int is_listed(const char *list, struct json_text word)
{
    for (const char *start = list; *start != '\0'; start += strspn(start, " ")) {
        size_t length = strcspn(start, " ");
        if (length == word.length && memcmp(start, word.data, length) == 0)
            return 1;
        start += length;
    }
    return 0;
}

void check_keys(const struct json *object, const char *keys)
{
    size_t wanted = 1, found = 0;
    if (!json_is(object, JSON_OBJECT))
        fail("an object was expected");
    for (const char *c = keys; *c != '\0'; c++)
        wanted += *c == ' ';
    for (const struct json *member = object->first; member != NULL; member = member->next) {
        int listed = is_listed(keys, member->key);
        found += (size_t)listed;
        if (!listed && (member->key.length < 2 || memcmp(member->key.data, "x_", 2) != 0))
            fail("the key '%.60s' is unknown", member->key.data);
    }
    if (found != wanted)
        fail("one of the keys %s is missing", keys);
}

size_t take_integer(const struct json *message, const char *name, uint64_t limit)
{
    uint64_t value;
    if (!json_unsigned(json_member(message, name), limit, &value))
        fail("'%s' is not an integer from 0 to %" PRIu64, name, limit);
    return (size_t)value;
}

size_t take_integer_or_null(const struct json *message, const char *name, uint64_t limit, size_t other)
{
    return json_is(json_member(message, name), JSON_NULL) ? other : take_integer(message, name, limit);
}

const char *take_text(const struct json *message, const char *name)
{
    const struct json *value = json_member(message, name);
    if (!json_is(value, JSON_STRING) || value->string.length == 0 || strlen(value->string.data) != value->string.length)
        fail("'%s' is not a text", name);
    return value->string.data;
}

int take_flag(const struct json *message, const char *name)
{
    const struct json *value = json_member(message, name);
    if (!json_is(value, JSON_TRUE) && !json_is(value, JSON_FALSE))
        fail("'%s' is not true or false", name);
    return json_is(value, JSON_TRUE);
}
