/* Vector cases about what is seen in which order, and about initial values. */

#include "case.h"
#include "failure.h"
#include "ngram.h"
#include "splitmix64.h"

/* The inputs of each window, then its targets: the same tokens shifted by one. */
void windows_list(struct case_context *c)
{
    struct epoch epoch = input_epoch(c);
    uint64_t *ids = NEW_ARRAY(c->arena, uint64_t, 2 * epoch.count * epoch.context + 1), *next = ids;
    for (size_t i = 0; i < epoch.count; i++)
        for (size_t shift = 0; shift < 2; shift++)
            for (size_t j = 0; j < epoch.context; j++)
                *next++ = epoch.documents[epoch.slots[i].document].ids[epoch.slots[i].start + shift + j];
    answer_ids(c, ids, 2 * epoch.count * epoch.context);
}

/* Slices keep every window and its place, so the batch size does not show in the flat list. */
void batches_shuffled(struct case_context *c)
{
    struct epoch epoch = input_epoch(c);
    struct splitmix64 generator = {input_integer(c->input, "seed")};
    uint64_t *ids = NEW_ARRAY(c->arena, uint64_t, 2 * epoch.count + 1);
    shuffle(&epoch, &generator);
    for (size_t i = 0; i < epoch.count; i++) {
        ids[2 * i] = epoch.slots[i].document;
        ids[2 * i + 1] = epoch.slots[i].start;
    }
    answer_ids(c, ids, 2 * epoch.count);
}

void splitmix_below(struct case_context *c)
{
    struct splitmix64 generator = {input_integer(c->input, "seed")};
    uint64_t bound = input_integer(c->input, "bound");
    size_t draws = input_size(c->input, "draws");
    uint64_t *ids = NEW_ARRAY(c->arena, uint64_t, draws + 1);
    if (bound == 0)
        fail("a draw below 0 does not exist");
    for (size_t i = 0; i < draws; i++)
        ids[i] = splitmix64_below(&generator, bound);
    answer_ids(c, ids, draws);
}

/* Matrices drawn from one stream, one behind the other. */
void init_xavier(struct case_context *c)
{
    struct splitmix64 generator = {input_integer(c->input, "seed")};
    struct tokens shapes = flat_rows(c, "shapes", 2);
    size_t total = 0, place = 0;
    for (size_t i = 0; i < shapes.length; i += 2) {
        if (shapes.ids[i] == 0 || shapes.ids[i] > MAXIMUM_WIDTH || shapes.ids[i + 1] > MAXIMUM_WIDTH)
            fail("a shape has a length of 0 or above %d", MAXIMUM_WIDTH);
        total += (size_t)shapes.ids[i] * shapes.ids[i + 1];
    }
    double *values = NEW_ARRAY(c->arena, double, total + 1);
    for (size_t i = 0; i < shapes.length; i += 2) {
        draw_xavier(values + place, shapes.ids[i], shapes.ids[i + 1], &generator);
        place += (size_t)shapes.ids[i] * shapes.ids[i + 1];
    }
    answer_values(c, values, total);
}
