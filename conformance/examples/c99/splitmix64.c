#include "splitmix64.h"

uint64_t splitmix64_next(struct splitmix64 *generator)
{
    generator->state += 0x9e3779b97f4a7c15;
    uint64_t mixed = generator->state;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
    return mixed ^ (mixed >> 31);
}

double splitmix64_unit(struct splitmix64 *generator) { return (double)(splitmix64_next(generator) >> 11) * 0x1p-53; }

uint64_t splitmix64_below(struct splitmix64 *generator, uint64_t bound)
{
    /* The lowest 2^64 mod bound draws are rejected, so that the rest divides evenly; 0 - bound is 2^64 - bound. */
    uint64_t threshold = (0 - bound) % bound;
    for (;;) {
        uint64_t draw = splitmix64_next(generator);
        if (draw >= threshold)
            return draw % bound;
    }
}
