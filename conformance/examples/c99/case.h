/* One vector case: what an operation may use, where its answer goes, and inputs that several operations share. */

#ifndef CASE_H
#define CASE_H

#include <stdint.h>

#include "arena.h"
#include "inputs.h"
#include "json.h"
#include "tokenizer.h"
#include "trace.h"
#include "windows.h"

struct case_context {
    struct arena *arena;
    const char *folder; /* holds the given weights */
    const struct json *input;
    struct trace *trace;
};

/* An answer is a list of integers or of doubles, or a text. */
void answer_ids(struct case_context *c, const uint64_t *ids, size_t count);
void answer_tokens(struct case_context *c, struct tokens tokens);
void answer_values(struct case_context *c, const double *values, size_t count);

/* Lists of `width` ids each, one behind the other. */
struct tokens flat_rows(struct case_context *c, const char *name, size_t width);

/* The windows of `documents` with a `context`, and a `stride` that may be left out. */
struct epoch input_epoch(struct case_context *c);

/* One flag for each id of the vocabulary: whether `masked` names it. */
unsigned char *input_mask(struct case_context *c, size_t vocabulary);

/* The operations, by what they are about. */
void bpe_train(struct case_context *c);
void bpe_encode(struct case_context *c);
void bpe_decode(struct case_context *c);
void bpe_encode_special(struct case_context *c);
void bpe_decode_stream(struct case_context *c);

void windows_list(struct case_context *c);
void batches_shuffled(struct case_context *c);
void splitmix_below(struct case_context *c);
void init_xavier(struct case_context *c);

void arithmetic_elementary(struct case_context *c);
void logits_argmax(struct case_context *c);
void logits_mean_nll(struct case_context *c);
void adamw_run(struct case_context *c);

void model_forward(struct case_context *c);
void model_greedy(struct case_context *c);
void model_gradients(struct case_context *c);
void model_evaluate(struct case_context *c);

#endif
