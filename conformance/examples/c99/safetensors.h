/* Weights from a safetensors file: eight bytes of header length, a JSON header, then raw little-endian numbers.

   Only F32 tensors are read; every float is a double, so nothing is rounded. */

#ifndef SAFETENSORS_H
#define SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "arena.h"
#include "files.h"
#include "json.h"

enum { MAXIMUM_AXES = 2 };

struct safetensors {
    const struct json *header;
    const char *data; /* behind the header */
    size_t length;
};

struct tensor {
    const double *values; /* row-major */
    size_t axes, shape[MAXIMUM_AXES], count;
};

/* Read the header; a damaged file ends the program. */
struct safetensors safetensors_open(struct arena *arena, struct bytes bytes);

/* A tensor of one or two axes; where it is not there, or not as it should be, the program ends. */
struct tensor safetensors_read(struct arena *arena, const struct safetensors *file, const char *name);

#endif
