/* The key/value cache of one sequence: turned keys and raw values of every layer, one row a token. */

#ifndef CACHE_H
#define CACHE_H

#include <stddef.h>

struct cache {
    size_t start;    /* the position of the first token */
    size_t length;   /* how many rows the sequence owns */
    size_t capacity; /* how many there is room for */
    size_t layers, row; /* numbers in a row: heads of keys and values times their width */
    double **keys, **values; /* of each layer, [capacity, row] */
};

struct cache cache_new(size_t layers, size_t row);
void cache_free(struct cache *cache);

/* Make room for `rows` rows; new ones are filled with `filler`. */
void cache_reserve(struct cache *cache, size_t rows, double filler);

/* Fill the rows that the sequence does not own. */
void cache_poison(struct cache *cache, double filler);

/* Make `target` hold what `source` holds; they share nothing afterwards. */
void cache_copy(const struct cache *source, struct cache *target, double filler);

#endif
