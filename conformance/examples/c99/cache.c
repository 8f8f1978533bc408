#include "cache.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "failure.h"

struct cache cache_new(size_t layers, size_t row)
{
    struct cache cache = {0, 0, 0, layers, row, calloc(layers, sizeof(double *)), calloc(layers, sizeof(double *))};
    if (cache.keys == NULL || cache.values == NULL)
        fail("the memory does not suffice for a cache of %zu layers", layers);
    return cache;
}

void cache_free(struct cache *cache)
{
    for (size_t layer = 0; layer < cache->layers; layer++) {
        free(cache->keys[layer]);
        free(cache->values[layer]);
    }
    free(cache->keys);
    free(cache->values);
    *cache = (struct cache){0, 0, 0, 0, 0, NULL, NULL};
}

static void fill(double *rows, size_t first, size_t last, size_t row, double filler)
{
    for (size_t i = first * row; i < last * row; i++)
        rows[i] = filler;
}

static void grow(double **rows, const struct cache *cache, size_t capacity, double filler)
{
    double *larger = realloc(*rows, capacity * cache->row * sizeof(double));
    if (larger == NULL)
        fail("the memory does not suffice for a cache of %zu rows", capacity);
    *rows = larger;
    fill(larger, cache->capacity, capacity, cache->row, filler);
}

void cache_reserve(struct cache *cache, size_t rows, double filler)
{
    if (rows <= cache->capacity)
        return;
    size_t capacity = rows < 2 * cache->capacity ? 2 * cache->capacity : rows;
    if (capacity > SIZE_MAX / sizeof(double) / cache->row)
        fail("a cache of %zu rows is larger than any memory", capacity);
    for (size_t layer = 0; layer < cache->layers; layer++) {
        grow(&cache->keys[layer], cache, capacity, filler);
        grow(&cache->values[layer], cache, capacity, filler);
    }
    cache->capacity = capacity;
}

void cache_poison(struct cache *cache, double filler)
{
    for (size_t layer = 0; layer < cache->layers; layer++) {
        fill(cache->keys[layer], cache->length, cache->capacity, cache->row, filler);
        fill(cache->values[layer], cache->length, cache->capacity, cache->row, filler);
    }
}

void cache_copy(const struct cache *source, struct cache *target, double filler)
{
    size_t bytes = source->length * source->row * sizeof(double);
    cache_reserve(target, source->length, filler);
    for (size_t layer = 0; bytes > 0 && layer < source->layers; layer++) {
        memcpy(target->keys[layer], source->keys[layer], bytes);
        memcpy(target->values[layer], source->values[layer], bytes);
    }
    target->start = source->start;
    target->length = source->length;
}
