/* The published experiment of the neural n-gram (course, chapter 23): from a corpus to a trained model. */

#ifndef EXPERIMENT_H
#define EXPERIMENT_H

#include "adamw.h"
#include "arena.h"
#include "corpus.h"
#include "greedy.h"
#include "ngram.h"
#include "sha256.h"
#include "tokenizer.h"
#include "windows.h"

enum {
    MERGES = 8,
    CONTEXT = 2,
    EMBEDDING_WIDTH = 4,
    HIDDEN_WIDTH = 8,
    BATCH = 64,
    EVALUATION_BATCH = 512,
    INIT_SEED = 23,
    SHUFFLE_SEED = 23,
    STEPS = 15,
    NEW_TOKENS = 12,
    REPORTS = 3
};

extern const char PROMPT[];
extern const size_t REPORTED_STEPS[REPORTS]; /* when losses are computed */
extern const struct adamw_settings SETTINGS;

/* The encoded split. Test documents are neither encoded nor scored. */
struct prepared {
    struct tokenizer tokenizer;
    size_t train_documents, validation_documents;
    int test_text_used;
    struct epoch shuffled, train, validation;
    struct tokens prompt;
};

/* What is known after a step; step 0 is before any update. */
struct step {
    char parameters[SHA256_TEXT], moments[SHA256_TEXT];
    double batch_loss; /* of the step's batch before its update; not at step 0 */
    int evaluated;
    double train, validation;
};

/* Everything that one run computes. */
struct outcome {
    struct ngram_sizes sizes;
    double *embeddings, *hidden, *logits; /* of the prompt, before the first update */
    size_t argmax;
    struct step steps[STEPS + 1];
    double gradient_l1[MATRICES]; /* of the first gradients */
    struct continuation continuation;
    int parameters_preserved, gradients_cleared;
};

struct prepared prepare(struct arena *arena, struct bytes corpus, struct bytes splits);
struct outcome train_once(struct arena *arena, const struct prepared *data);

/* The mean loss over all windows of an epoch: each batch's mean counts with its number of rows. */
double evaluate(struct arena *arena, const struct ngram *model, const struct epoch *epoch, size_t batch);

/* Whether two runs agree in every bit. */
int same_bits(const struct outcome *one, const struct outcome *other);

#endif
