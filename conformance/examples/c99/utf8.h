/* UTF-8, strictly: no overlong forms, no surrogates, nothing beyond U+10FFFF. */

#ifndef UTF8_H
#define UTF8_H

#include <stddef.h>
#include <stdint.h>

/* Decode the character at `text`, of which `length` bytes are left: return how many bytes it has, 0 if it is none. */
size_t utf8_decode(const char *text, size_t length, uint32_t *character);

/* Return how many of the first bytes are the beginning of some character, or all of one; 0 if the first begins none. */
size_t utf8_begun(const char *text, size_t length);

/* Write a character (no surrogate, at most U+10FFFF) and return how many of the four bytes it took. */
size_t utf8_encode(uint32_t character, char bytes[4]);

#endif
