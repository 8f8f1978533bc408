/* The decoder that real engines run: RMSNorm, rotary grouped-query attention, SwiGLU, no biases.

       x = E[ids]
       for each block:
           r = attention(norm(x)) + x
           x = feed_forward(norm(r)) + r
       logits = norm(x) W^T

   in strict/1, with a key/value cache. Matrices are as in the file: [outputs, inputs]. */

#ifndef LLAMA_H
#define LLAMA_H

#include <stdint.h>

#include "arena.h"
#include "cache.h"
#include "llama_sizes.h"

struct llama_layer {
    const double *attention_norm;             /* gain [width] */
    const double *query, *key, *value, *output;
    const double *feed_forward_norm;          /* gain [width] */
    const double *gate, *up, *down;
};

struct llama {
    struct llama_sizes sizes;
    const double *embedding; /* [vocabulary, width] */
    struct llama_layer *layers;
    const double *final_norm;
    const double *head; /* [vocabulary, width]; the embedding itself where it is tied */
    size_t parameters;
};

/* Takes a stage of the forward pass: its name, shape and numbers. */
struct observer {
    void (*show)(void *who, const char *name, const size_t *shape, size_t axes, const double *values);
    void *who;
};

/* Tokens that follow what a cache holds. */
struct feed {
    const uint32_t *tokens;
    size_t count;
    const size_t *wanted; /* the places among the tokens after which logits are wanted */
    size_t wanted_count;
    const struct observer *observer; /* NULL where nobody looks */
    size_t fail_after;               /* refuse behind so many blocks; SIZE_MAX for never */
};

/* Read a model folder. */
struct llama llama_load(struct arena *arena, const char *folder);

/* Write logits [wanted, vocabulary]. The rows of the tokens are written behind those that the cache owns; they become
   its own when the caller adds the tokens to its length, so that a failure leaves the sequence as it was. */
void llama_feed(struct arena *scratch, const struct llama *model, struct cache *cache, const struct feed *feed,
                double filler, double *logits);

#endif
