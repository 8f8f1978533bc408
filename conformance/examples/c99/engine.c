#include "engine.h"

#include <math.h>
#include <string.h>

#include "elementary.h"
#include "failure.h"
#include "softmax.h"

/* sin and cos of strict/1 are not defined beyond. */
static const size_t LAST_POSITION = 1000000;

/* ---- models ---- */

void engine_unload(struct engine *engine)
{
    for (size_t slot = 0; engine->loaded && slot <= SLOTS; slot++)
        cache_free(&engine->slots[slot]);
    engine->loaded = 0;
    engine->fails_next = 0;
    arena_free(&engine->step);
    arena_free(&engine->memory);
}

void engine_load(struct engine *engine, const char *folder)
{
    engine_unload(engine);
    engine->model = llama_load(&engine->memory, folder);
    for (size_t slot = 0; slot <= SLOTS; slot++)
        engine->slots[slot] =
            cache_new(engine->model.sizes.layers, engine->model.sizes.groups * engine->model.sizes.head_width);
    engine->loaded = 1;
}

static void check_loaded(const struct engine *engine)
{
    if (!engine->loaded)
        not_offered("no model is loaded");
}

static void check_tokens(const struct engine *engine, const uint32_t *tokens, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (tokens[i] >= engine->model.sizes.vocabulary)
            not_offered("token %lu at place %zu is beyond a vocabulary of %zu", (unsigned long)tokens[i], i,
                        engine->model.sizes.vocabulary);
}

/* ---- evaluating ---- */

void engine_check(struct engine *engine, struct arena *arena, struct piece *piece)
{
    check_loaded(engine);
    const struct cache *cache = &engine->slots[piece->slot];
    const struct feed *feed = &piece->feed;
    check_tokens(engine, feed->tokens, feed->count);
    if (cache->length > 0 && piece->position != cache->start + cache->length)
        not_offered("slot %zu goes on at position %zu", piece->slot, cache->start + cache->length);
    if (cache->length + feed->count > engine->model.sizes.context)
        not_offered("slot %zu has no room for %zu tokens more", piece->slot, feed->count);
    if (piece->position > LAST_POSITION || piece->position + feed->count > LAST_POSITION)
        not_offered("positions beyond %zu have no rotation in strict/1", LAST_POSITION);
    piece->logits = NEW_ARRAY(arena, double, feed->wanted_count * engine->model.sizes.vocabulary);
}

void engine_evaluate(struct engine *engine, struct arena *arena, struct piece *piece)
{
    struct cache *cache = &engine->slots[piece->slot];
    if (cache->length == 0)
        cache->start = piece->position;
    llama_feed(arena, &engine->model, cache, &piece->feed, engine->filler, piece->logits);
}

void engine_commit(struct engine *engine, const struct piece *piece)
{
    engine->slots[piece->slot].length += piece->feed.count;
}

/* ---- slots ---- */

void engine_clear(struct engine *engine, size_t slot)
{
    if (engine->loaded)
        engine->slots[slot].length = 0;
}

void engine_drop(struct engine *engine, size_t slot, size_t first, size_t last)
{
    check_loaded(engine);
    struct cache *cache = &engine->slots[slot];
    size_t end = cache->start + cache->length;
    if (cache->length == 0 || first < cache->start || first > end)
        not_offered("slot %zu does not hold position %zu", slot, first);
    if (last < end)
        not_offered("only the newest positions can be dropped");
    cache->length = first - cache->start;
}

void engine_copy(struct engine *engine, size_t source, size_t target)
{
    check_loaded(engine);
    if (source != target)
        cache_copy(&engine->slots[source], &engine->slots[target], engine->filler);
}

void engine_poison(struct engine *engine, double filler)
{
    engine->filler = filler; /* for rows that are still to come */
    for (size_t slot = 0; engine->loaded && slot <= SLOTS; slot++)
        cache_poison(&engine->slots[slot], filler);
}

/* ---- generating ---- */

/* Feed tokens to the engine's own slot and return the logits after the last of them. */
static const double *logits_after(struct engine *engine, const uint32_t *tokens, size_t count)
{
    size_t last = count - 1;
    struct piece piece = {.slot = OWN_SLOT,
                          .position = engine->slots[OWN_SLOT].length,
                          .feed = {tokens, count, &last, 1, NULL, SIZE_MAX}};
    engine_check(engine, &engine->step, &piece);
    engine_evaluate(engine, &engine->step, &piece);
    engine_commit(engine, &piece);
    for (size_t id = 0; id < engine->model.sizes.vocabulary; id++)
        if (!isfinite(piece.logits[id]))
            fail("the logit of id %zu is not finite", id);
    return piece.logits;
}

/* The likeliest ids: (z - m) - log1p(tail) falls with z, and of equals the lowest id comes first. */
static void take_top(const double *z, size_t vocabulary, struct generated *found)
{
    size_t winner = first_maximum(z, vocabulary);
    double log_normalizer = strict_log1p(softmax_tail(z, vocabulary, winner));
    uint32_t *ids = found->top_ids + found->length * found->top;
    for (size_t rank = 0; rank < found->top; rank++) {
        size_t best = vocabulary;
        for (size_t id = 0; id < vocabulary; id++) {
            int follows = rank == 0 || z[id] < z[ids[rank - 1]] || (z[id] == z[ids[rank - 1]] && id > ids[rank - 1]);
            if (follows && (best == vocabulary || z[id] > z[best]))
                best = id;
        }
        ids[rank] = (uint32_t)best;
        found->top_values[found->length * found->top + rank] = (z[best] - z[winner]) - log_normalizer;
    }
}

struct generated engine_generate(struct engine *engine, struct arena *arena, const struct generation *order)
{
    check_loaded(engine);
    size_t context = engine->model.sizes.context, vocabulary = engine->model.sizes.vocabulary;
    if (order->prompt_length >= context)
        not_offered("a prompt of %zu tokens leaves no room in a context of %zu", order->prompt_length, context);
    check_tokens(engine, order->prompt, order->prompt_length);
    size_t room = context - order->prompt_length, limit = order->new_tokens < room ? order->new_tokens : room;
    struct generated found = {.top = order->top < vocabulary ? order->top : vocabulary};
    uint32_t *sequence = NEW_ARRAY(arena, uint32_t, order->prompt_length + limit);
    memcpy(sequence, order->prompt, order->prompt_length * sizeof *sequence);
    found.ids = sequence + order->prompt_length;
    found.top_ids = NEW_ARRAY(arena, uint32_t, limit * found.top + 1);
    found.top_values = NEW_ARRAY(arena, double, limit * found.top + 1);
    engine->slots[OWN_SLOT].length = 0;
    for (size_t length = order->prompt_length; found.length < limit; length++) {
        size_t known = order->reencodes ? 0 : engine->slots[OWN_SLOT].length;
        engine->slots[OWN_SLOT].length = known;
        arena_free(&engine->step);
        const double *logits = logits_after(engine, sequence + known, length - known);
        take_top(logits, vocabulary, &found);
        found.ids[found.length++] = (uint32_t)first_maximum(logits, vocabulary);
        if (order->stops && found.ids[found.length - 1] == order->stop)
            break;
    }
    engine->slots[OWN_SLOT].length = 0;
    return found;
}
