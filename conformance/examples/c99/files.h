/* Whole files. */

#ifndef FILES_H
#define FILES_H

#include <stddef.h>

#include "arena.h"

struct bytes {
    const char *data; /* a NUL stands behind the last byte */
    size_t length;
};

/* Read folder/name; the program fails where it cannot be read, or holds more than `limit` bytes. */
struct bytes read_file(struct arena *arena, const char *folder, const char *name, size_t limit);

#endif
