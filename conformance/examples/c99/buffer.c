#include "buffer.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void make_room(struct buffer *buffer, size_t more)
{
    if (more <= buffer->capacity - buffer->length)
        return;
    if (buffer->length > SIZE_MAX / 4 || more > SIZE_MAX / 4)
        fail("a text grows beyond the memory");
    size_t wanted = 2 * buffer->capacity + more + 64;
    char *data = realloc(buffer->data, wanted);
    if (data == NULL)
        fail("the memory does not suffice for a text of %zu bytes", wanted);
    buffer->data = data;
    buffer->capacity = wanted;
}

void buffer_bytes(struct buffer *buffer, const void *data, size_t length)
{
    if (length == 0)
        return;
    make_room(buffer, length);
    memcpy(buffer->data + buffer->length, data, length);
    buffer->length += length;
}

void buffer_text(struct buffer *buffer, const char *text) { buffer_bytes(buffer, text, strlen(text)); }

void buffer_format(struct buffer *buffer, const char *format, ...)
{
    char text[512]; /* the longest double has 309 digits before the point */
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t)length >= sizeof text)
        fail("a formatted value is longer than %zu bytes", sizeof text);
    buffer_bytes(buffer, text, (size_t)length);
}

void buffer_clear(struct buffer *buffer) { buffer->length = 0; }

void buffer_free(struct buffer *buffer)
{
    free(buffer->data);
    buffer->data = NULL;
    buffer->length = buffer->capacity = 0;
}
