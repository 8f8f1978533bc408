/* A text that grows at its end. */

#ifndef BUFFER_H
#define BUFFER_H

#include <stddef.h>

#include "failure.h"

struct buffer {
    char *data; /* start with {NULL, 0, 0} */
    size_t length, capacity;
};

void buffer_bytes(struct buffer *buffer, const void *data, size_t length);
void buffer_text(struct buffer *buffer, const char *text);
void buffer_format(struct buffer *buffer, const char *format, ...) LIKE_PRINTF(2, 3);

/* Forget the text and keep the room. */
void buffer_clear(struct buffer *buffer);
void buffer_free(struct buffer *buffer);

#endif
