/* Reading a message of the serve protocol key by key; what is not as it should be is a failure of the request. */

#ifndef MESSAGE_H
#define MESSAGE_H

#include <stddef.h>
#include <stdint.h>

#include "json.h"

/* The largest integer that travels as one. */
#define LARGEST (UINT64_C(1) << 53)

/* `keys`, with blanks between them, are all there, and no other key is; whatever begins with x_ is left alone. */
void check_keys(const struct json *object, const char *keys);

size_t take_integer(const struct json *message, const char *name, uint64_t limit);

/* An integer, or `other` for null. */
size_t take_integer_or_null(const struct json *message, const char *name, uint64_t limit, size_t other);

/* A text that is not empty and holds no NUL. */
const char *take_text(const struct json *message, const char *name);

int take_flag(const struct json *message, const char *name);

#endif
