/* Base 64 (RFC 4648), with padding. */

#ifndef BASE64_H
#define BASE64_H

#include <stddef.h>

#include "buffer.h"

void append_base64(struct buffer *text, const unsigned char *bytes, size_t length);

#endif
