/* An engine: a model, and slots that hold one sequence each. A call that fails leaves every slot as it was. */

#ifndef ENGINE_H
#define ENGINE_H

#include <stdint.h>

#include "arena.h"
#include "llama.h"

enum { SLOTS = 16, OWN_SLOT = SLOTS }; /* one more slot is the engine's own, for generation */

struct engine {
    struct arena memory; /* the model's; everything starts as 0 */
    struct arena step;   /* of one step of a generation */
    int loaded;
    struct llama model;
    struct cache slots[SLOTS + 1];
    double filler;     /* what unowned rows are filled with */
    int fails_next;    /* whether the next evaluation is to be refused ... */
    size_t fail_after; /* ... behind so many blocks */
};

/* Tokens for one slot. */
struct piece {
    size_t slot, position;
    struct feed feed;
    double *logits; /* [wanted, vocabulary] */
};

/* A generation by the engine's own loop. */
struct generation {
    const uint32_t *prompt;
    size_t prompt_length, new_tokens;
    int reencodes; /* arm `full`: encode the whole sequence for every token; else arm `cached` */
    int stops;     /* whether there is an id that ends it ... */
    uint32_t stop; /* ... which belongs to what is generated */
    size_t top;    /* how many of the likeliest ids of each step are wanted */
};

struct generated {
    uint32_t *ids;
    size_t length, top;
    uint32_t *top_ids;  /* [length, top], likeliest first; of equals, the lowest id first */
    double *top_values; /* their log-probabilities */
};

void engine_load(struct engine *engine, const char *folder);
void engine_unload(struct engine *engine);

/* Check a piece before anything is computed, and make room for its logits. */
void engine_check(struct engine *engine, struct arena *arena, struct piece *piece);

/* Compute a checked piece; its tokens are remembered by engine_commit alone. */
void engine_evaluate(struct engine *engine, struct arena *arena, struct piece *piece);
void engine_commit(struct engine *engine, const struct piece *piece);

void engine_clear(struct engine *engine, size_t slot);

/* Forget the positions first ... last - 1; SIZE_MAX is behind all of them. Only the newest can be dropped. */
void engine_drop(struct engine *engine, size_t slot, size_t first, size_t last);
void engine_copy(struct engine *engine, size_t source, size_t target);
void engine_poison(struct engine *engine, double filler);
struct generated engine_generate(struct engine *engine, struct arena *arena, const struct generation *order);

#endif
