/* A double and its 64 bits. */

#ifndef BITS_H
#define BITS_H

#include <stdint.h>
#include <string.h>

static inline uint64_t bits_of(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline double double_of(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

#endif
