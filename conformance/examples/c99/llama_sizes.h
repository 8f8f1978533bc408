/* The sizes of a Llama model, read from the config.json that other engines read, too. */

#ifndef LLAMA_SIZES_H
#define LLAMA_SIZES_H

#include <stddef.h>

#include "arena.h"
#include "files.h"

struct llama_sizes {
    size_t vocabulary, context, width, feed_forward, layers;
    size_t heads, groups, head_width; /* query heads, heads of keys and values, features of a head */
    size_t window;                    /* how many tokens a token sees, itself included; 0 for all */
    int tied;                         /* whether the embedding table is the output matrix, too */
    double rope_base, epsilon;
};

/* A model that is none of ours is not offered; a file that contradicts itself is a failure. */
struct llama_sizes read_llama_sizes(struct arena *arena, struct bytes config);

#endif
