#include "arena.h"

#include <stdint.h>
#include <stdlib.h>

#include "failure.h"

/* The header of an allocation; the union gives it the strictest alignment of what follows. */
struct arena_block {
    union {
        struct arena_block *previous;
        double real;
        uint64_t integer;
    } header;
};

void *arena_zeroed(struct arena *arena, size_t count, size_t size)
{
    if (size != 0 && count > (SIZE_MAX / 2) / size)
        fail("the memory does not suffice for %zu things of %zu bytes", count, size);
    struct arena_block *block = calloc(1, sizeof *block + count * size);
    if (block == NULL)
        fail("the memory does not suffice for %zu bytes more", count * size);
    block->header.previous = arena->newest;
    arena->newest = block;
    return block + 1;
}

void arena_free(struct arena *arena)
{
    while (arena->newest != NULL) {
        struct arena_block *block = arena->newest;
        arena->newest = block->header.previous;
        free(block);
    }
}
