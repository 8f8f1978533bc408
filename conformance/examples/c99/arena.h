/* Memory that is freed together: everything that belongs to one task lives in one arena. */

#ifndef ARENA_H
#define ARENA_H

#include <stddef.h>

struct arena {
    struct arena_block *newest; /* start an arena with {NULL} */
};

/* Return room for `count` things of `size` bytes, all zero. Where there is none left, the program fails. */
void *arena_zeroed(struct arena *arena, size_t count, size_t size);

/* Free everything in the arena, which is empty afterwards. */
void arena_free(struct arena *arena);

#define NEW(arena, type) ((type *)arena_zeroed((arena), 1, sizeof(type)))
#define NEW_ARRAY(arena, type, count) ((type *)arena_zeroed((arena), (count), sizeof(type)))

#endif
