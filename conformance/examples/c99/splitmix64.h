/* SplitMix64 (Steele, Lea and Flood, 2014): the one source of randomness. The seed is the raw state. */

#ifndef SPLITMIX64_H
#define SPLITMIX64_H

#include <stdint.h>

struct splitmix64 {
    uint64_t state;
};

/* The next 64 bits. */
uint64_t splitmix64_next(struct splitmix64 *generator);

/* A double in [0, 1): the upper 53 bits of a draw, times 2^-53. */
double splitmix64_unit(struct splitmix64 *generator);

/* An integer in [0, bound), bound at least 1, without bias. */
uint64_t splitmix64_below(struct splitmix64 *generator, uint64_t bound);

#endif
