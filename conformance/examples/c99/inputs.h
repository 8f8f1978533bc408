/* Values of an object of JSON, taken out by name; where one is not what it should be, that is a failure. */

#ifndef INPUTS_H
#define INPUTS_H

#include "arena.h"
#include "files.h"
#include "json.h"
#include "tokenizer.h"

enum { MAXIMUM_WIDTH = 1 << 16, MAXIMUM_WEIGHTS = 1 << 26 };

struct doubles {
    double *values;
    size_t count;
};

const struct json *input_array(const struct json *input, const char *name);
uint64_t input_integer(const struct json *input, const char *name);

/* An integer that counts things, and so is small. */
size_t input_size(const struct json *input, const char *name);

/* A double as sixteen hexadecimal digits. */
double input_double(const struct json *input, const char *name);

/* A list of ids, a list of doubles, the bytes that hexadecimal digits spell; `name` says in messages what they are. */
struct tokens ids_of(struct arena *arena, const struct json *list, const char *name);
struct doubles doubles_of(struct arena *arena, const struct json *list, const char *name);
struct bytes bytes_of_hex(struct arena *arena, const struct json *text, const char *name);

#endif
