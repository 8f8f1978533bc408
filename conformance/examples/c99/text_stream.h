/* Text from bytes that come in pieces, in whole characters.

   A token may end inside a character, so the bytes of an unfinished one are held back until it is complete. Every
   longest beginning of a character that does not go on, and every byte that begins none, becomes U+FFFD (Unicode
   Standard, chapter 3, "U+FFFD substitution"). */

#ifndef TEXT_STREAM_H
#define TEXT_STREAM_H

#include "buffer.h"

struct text_stream {
    struct buffer held; /* start with {{NULL, 0, 0}} */
};

/* Take some bytes, and append the characters that they complete. */
void text_stream_push(struct text_stream *stream, const char *data, size_t length, struct buffer *text);

/* End the text: append U+FFFD for an unfinished character. */
void text_stream_finish(struct text_stream *stream, struct buffer *text);

#endif
