#include "base64.h"

void append_base64(struct buffer *text, const unsigned char *bytes, size_t length)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < length; i += 3) {
        size_t left = length - i;
        unsigned long three = (unsigned long)bytes[i] << 16;
        three |= left > 1 ? (unsigned long)bytes[i + 1] << 8 : 0;
        three |= left > 2 ? (unsigned long)bytes[i + 2] : 0;
        char four[4] = {digits[three >> 18], digits[three >> 12 & 63], digits[three >> 6 & 63], digits[three & 63]};
        for (size_t pad = left + 1; pad < 4; pad++)
            four[pad] = '=';
        buffer_bytes(text, four, sizeof four);
    }
}
