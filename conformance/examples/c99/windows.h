/* Windows of documents, and the batches that they are seen in.

   A window of context C is C input tokens and, as its target, the token behind them. Windows never leave their document
   and are never padded. */

#ifndef WINDOWS_H
#define WINDOWS_H

#include <stddef.h>
#include <stdint.h>

#include "arena.h"
#include "splitmix64.h"
#include "tokenizer.h"

struct slot {
    size_t document, start;
};

/* Documents, and the places of their windows in the order in which they are used; batches are slices of them. */
struct epoch {
    const struct tokens *documents;
    size_t context;
    struct slot *slots;
    size_t count;
};

/* List the windows of all documents, in document order and then by ascending start. */
struct epoch epoch_of(struct arena *arena, const struct tokens *documents, size_t documents_count, size_t context,
                      size_t stride);

/* Permute the windows: Fisher-Yates from the top, one bounded draw a position. */
void shuffle(struct epoch *epoch, struct splitmix64 *generator);

/* How many slices of `batch` windows there are; the last one may be narrower. */
size_t batches_of(const struct epoch *epoch, size_t batch);

/* The width of slice `index`. */
size_t rows_of_batch(const struct epoch *epoch, size_t batch, size_t index);

/* Write the contexts of `rows` windows one after the other, oldest token first, and the token after each. */
void take_windows(const struct epoch *epoch, size_t first, size_t rows, uint32_t *contexts, uint32_t *targets);

#endif
