#include "windows.h"

/* Of a document of L tokens: floor((L - C - 1) / stride) + 1, or none where L is at most C. */
static size_t windows_in(size_t length, size_t context, size_t stride)
{
    return length <= context ? 0 : (length - context - 1) / stride + 1;
}

struct epoch epoch_of(struct arena *arena, const struct tokens *documents, size_t documents_count, size_t context,
                      size_t stride)
{
    struct epoch epoch = {documents, context, NULL, 0};
    size_t total = 0;
    for (size_t d = 0; d < documents_count; d++)
        total += windows_in(documents[d].length, context, stride);
    epoch.slots = NEW_ARRAY(arena, struct slot, total + 1);
    for (size_t d = 0; d < documents_count; d++)
        for (size_t i = 0; i < windows_in(documents[d].length, context, stride); i++)
            epoch.slots[epoch.count++] = (struct slot){d, i * stride};
    return epoch;
}

void shuffle(struct epoch *epoch, struct splitmix64 *generator)
{
    for (size_t last = epoch->count; last-- > 1;) {
        size_t other = (size_t)splitmix64_below(generator, last + 1);
        struct slot held = epoch->slots[last];
        epoch->slots[last] = epoch->slots[other];
        epoch->slots[other] = held;
    }
}

size_t batches_of(const struct epoch *epoch, size_t batch)
{
    return epoch->count / batch + (epoch->count % batch != 0);
}

size_t rows_of_batch(const struct epoch *epoch, size_t batch, size_t index)
{
    size_t left = epoch->count - index * batch;
    return left < batch ? left : batch;
}

void take_windows(const struct epoch *epoch, size_t first, size_t rows, uint32_t *contexts, uint32_t *targets)
{
    for (size_t row = 0; row < rows; row++) {
        struct slot slot = epoch->slots[first + row];
        const uint32_t *window = epoch->documents[slot.document].ids + slot.start;
        for (size_t i = 0; i < epoch->context; i++)
            contexts[row * epoch->context + i] = window[i];
        targets[row] = window[epoch->context]; /* of the shifted targets, the last one */
    }
}
