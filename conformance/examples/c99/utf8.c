#include "utf8.h"

size_t utf8_decode(const char *text, size_t length, uint32_t *character)
{
    static const uint32_t smallest[5] = {0, 0, 0x80, 0x800, 0x10000};
    if (length == 0)
        return 0;
    unsigned char first = (unsigned char)text[0];
    size_t bytes = first < 0x80 ? 1 : first < 0xc0 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf8 ? 4 : 0;
    if (bytes == 0 || bytes > length)
        return 0;
    uint32_t value = bytes == 1 ? first : first & (0x7fu >> bytes);
    for (size_t i = 1; i < bytes; i++) {
        unsigned char next = (unsigned char)text[i];
        if ((next & 0xc0) != 0x80)
            return 0;
        value = value << 6 | (next & 0x3f);
    }
    if (value < smallest[bytes] || value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff))
        return 0;
    *character = value;
    return bytes;
}

size_t utf8_begun(const char *text, size_t length)
{
    if (length == 0)
        return 0;
    unsigned char first = (unsigned char)text[0];
    size_t bytes = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
    /* Which second byte may follow: not all, so that there is no overlong form, no surrogate and nothing too large. */
    unsigned char low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    unsigned char high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    size_t begun = bytes > 0;
    while (begun < bytes && begun < length && (unsigned char)text[begun] >= low && (unsigned char)text[begun] <= high) {
        low = 0x80;
        high = 0xbf;
        begun++;
    }
    return begun;
}

size_t utf8_encode(uint32_t character, char bytes[4])
{
    if (character < 0x80) {
        bytes[0] = (char)character;
        return 1;
    }
    size_t length = character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
    for (size_t i = length - 1; i > 0; i--) {
        bytes[i] = (char)(0x80 | (character & 0x3f));
        character >>= 6;
    }
    bytes[0] = (char)((0xf00u >> length) | character); /* 110xxxxx, 1110xxxx or 11110xxx */
    return length;
}
