#include "text_stream.h"

#include <string.h>

#include "utf8.h"

static const char REPLACEMENT[] = "\xef\xbf\xbd";

void text_stream_push(struct text_stream *stream, const char *data, size_t length, struct buffer *text)
{
    struct buffer *held = &stream->held;
    size_t place = 0;
    buffer_bytes(held, data, length);
    while (place < held->length) {
        const char *rest = held->data + place;
        size_t left = held->length - place;
        uint32_t character;
        size_t bytes = utf8_decode(rest, left, &character), begun = utf8_begun(rest, left);
        if (bytes > 0)
            buffer_bytes(text, rest, bytes);
        else if (begun == left)
            break;
        else
            buffer_text(text, REPLACEMENT);
        place += bytes > 0 ? bytes : begun > 0 ? begun : 1;
    }
    held->length -= place;
    if (held->length > 0)
        memmove(held->data, held->data + place, held->length);
}

void text_stream_finish(struct text_stream *stream, struct buffer *text)
{
    if (stream->held.length > 0)
        buffer_text(text, REPLACEMENT);
    buffer_free(&stream->held);
}
