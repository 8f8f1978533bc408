#include "experiment.h"

#include <math.h>
#include <string.h>

#include "bits.h"
#include "failure.h"
#include "loss.h"

const char PROMPT[] = "At";
const size_t REPORTED_STEPS[REPORTS] = {0, 8, STEPS};
const struct adamw_settings SETTINGS = {.rate = 0.01, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .decay = 0.01};

/* ---- data ---- */

/* Learn the merges from the training documents alone. */
static struct tokenizer fit(struct arena *arena, const struct corpus *corpus)
{
    struct tokens *documents = NEW_ARRAY(arena, struct tokens, corpus->count);
    size_t count = 0;
    for (size_t i = 0; i < corpus->count; i++) {
        const struct document *document = &corpus->documents[i];
        if (document->partition == TRAIN)
            documents[count++] = tokens_of_bytes(arena, document->text.data, document->text.length);
    }
    struct tokenizer tokenizer = tokenizer_fit(arena, documents, count, MERGES);
    if (tokenizer.merges != MERGES)
        fail("%d merges were requested, %zu could be learned", MERGES, tokenizer.merges);
    return tokenizer;
}

/* Encode the documents of one partition, note whether one of them is test text, and cut windows. */
static struct epoch encode_partition(struct arena *arena, const struct corpus *corpus, enum partition partition,
                                     struct prepared *data, size_t *count)
{
    struct tokens *documents = NEW_ARRAY(arena, struct tokens, corpus->count);
    *count = 0;
    for (size_t i = 0; i < corpus->count; i++) {
        const struct document *document = &corpus->documents[i];
        if (document->partition != partition)
            continue;
        data->test_text_used = data->test_text_used || document->partition == TEST;
        documents[(*count)++] =
            tokenizer_encode_document(arena, &data->tokenizer, document->text.data, document->text.length);
    }
    return epoch_of(arena, documents, *count, CONTEXT, 1);
}

struct prepared prepare(struct arena *arena, struct bytes corpus_bytes, struct bytes splits_bytes)
{
    struct corpus corpus = read_corpus(arena, corpus_bytes, splits_bytes);
    struct prepared data = {.test_text_used = 0};
    size_t documents;
    data.tokenizer = fit(arena, &corpus);
    data.prompt = tokenizer_encode(arena, &data.tokenizer, PROMPT, strlen(PROMPT));
    if (data.prompt.length != CONTEXT)
        fail("the prompt has %zu ids under these merges, the context takes %d", data.prompt.length, CONTEXT);
    data.train = encode_partition(arena, &corpus, TRAIN, &data, &data.train_documents);
    data.shuffled = encode_partition(arena, &corpus, TRAIN, &data, &documents);
    data.validation = encode_partition(arena, &corpus, VALIDATION, &data, &data.validation_documents);
    if (data.train.count == 0 || data.validation.count == 0)
        fail("the training or the validation documents have no window of %d tokens", CONTEXT + 1);
    struct splitmix64 generator = {SHUFFLE_SEED};
    shuffle(&data.shuffled, &generator);
    return data;
}

/* ---- evaluation ---- */

double evaluate(struct arena *arena, const struct ngram *model, const struct epoch *epoch, size_t batch)
{
    struct stages stages = ngram_stages(arena, &model->sizes, batch);
    uint32_t *contexts = NEW_ARRAY(arena, uint32_t, batch * epoch->context);
    uint32_t *targets = NEW_ARRAY(arena, uint32_t, batch);
    double total = 0.0;
    for (size_t i = 0; i < batches_of(epoch, batch); i++) {
        size_t rows = rows_of_batch(epoch, batch, i);
        take_windows(epoch, i * batch, rows, contexts, targets);
        ngram_forward(model, contexts, rows, &stages);
        total += mean_nll(stages.logits, rows, model->sizes.vocabulary, targets) * (double)rows;
    }
    return total / (double)epoch->count; /* not the mean of batch means: the last batch is narrower */
}

/* ---- training ---- */

struct run {
    struct arena *arena;
    const struct prepared *data;
    struct ngram model;
    struct adamw optimizer;
    double *gradient;
    size_t parameters;
};

/* Run the model on the prompt and keep what it computes. */
static void probe(struct run *run, struct outcome *outcome)
{
    struct stages stages = ngram_stages(run->arena, &run->model.sizes, 1);
    const unsigned char *unmasked = NEW_ARRAY(run->arena, unsigned char, run->model.sizes.vocabulary);
    ngram_forward(&run->model, run->data->prompt.ids, 1, &stages);
    outcome->embeddings = stages.concatenated;
    outcome->hidden = stages.hidden;
    outcome->logits = stages.logits;
    outcome->argmax = greedy_token(stages.logits, run->model.sizes.vocabulary, unmasked);
}

static int is_reported(size_t step)
{
    for (int i = 0; i < REPORTS; i++)
        if (REPORTED_STEPS[i] == step)
            return 1;
    return 0;
}

/* Digest parameters and moments in registry order, and compute the losses where they are due. */
static void record(struct run *run, size_t number, struct step *step)
{
    struct sha256 hash;
    sha256_start(&hash);
    sha256_doubles(&hash, run->model.parameters, run->parameters);
    sha256_finish(&hash, step->parameters);
    sha256_start(&hash);
    sha256_doubles(&hash, run->optimizer.first, run->parameters);
    sha256_doubles(&hash, run->optimizer.second, run->parameters);
    sha256_finish(&hash, step->moments);
    step->evaluated = is_reported(number);
    if (step->evaluated) {
        step->train = evaluate(run->arena, &run->model, &run->data->train, EVALUATION_BATCH);
        step->validation = evaluate(run->arena, &run->model, &run->data->validation, EVALUATION_BATCH);
    }
}

/* The ascending sum of |g| over each matrix. */
static void sum_magnitudes(const struct run *run, double *norms)
{
    for (int matrix = EMBEDDING; matrix < MATRICES; matrix++) {
        norms[matrix] = 0.0;
        for (size_t i = ngram_offset(&run->model.sizes, matrix); i < ngram_offset(&run->model.sizes, matrix + 1); i++)
            norms[matrix] += fabs(run->gradient[i]);
    }
}

/* One batch: loss, gradient, update. The plan starts again where it ends before the last step. */
static double update(struct run *run, size_t number, struct outcome *outcome)
{
    const struct epoch *plan = &run->data->shuffled;
    size_t index = (number - 1) % batches_of(plan, BATCH), rows = rows_of_batch(plan, BATCH, index);
    struct stages stages = ngram_stages(run->arena, &run->model.sizes, rows);
    uint32_t contexts[BATCH * CONTEXT], targets[BATCH];
    take_windows(plan, index * BATCH, rows, contexts, targets);
    ngram_forward(&run->model, contexts, rows, &stages);
    double loss = mean_nll(stages.logits, rows, run->model.sizes.vocabulary, targets);
    ngram_backward(run->arena, &run->model, &stages, targets, run->gradient);
    if (number == 1)
        sum_magnitudes(run, outcome->gradient_l1);
    adamw_step(&run->optimizer, run->model.parameters, run->gradient);
    memset(run->gradient, 0, run->parameters * sizeof *run->gradient);
    return loss;
}

static int all_zero(const double *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (values[i] != 0.0)
            return 0;
    return 1;
}

struct outcome train_once(struct arena *arena, const struct prepared *data)
{
    size_t vocabulary = tokenizer_vocabulary(&data->tokenizer);
    struct outcome outcome = {.sizes = {vocabulary, CONTEXT, EMBEDDING_WIDTH, HIDDEN_WIDTH}};
    struct splitmix64 generator = {INIT_SEED}; /* not the shuffle's, although the seeds are equal */
    struct run run = {.arena = arena, .data = data, .model = ngram_drawn(arena, outcome.sizes, &generator)};
    run.parameters = ngram_offset(&outcome.sizes, MATRICES);
    run.gradient = NEW_ARRAY(arena, double, run.parameters);
    run.optimizer = adamw_new(arena, SETTINGS, run.parameters);
    const double *before = run.model.parameters;

    probe(&run, &outcome);
    record(&run, 0, &outcome.steps[0]);
    for (size_t number = 1; number <= STEPS; number++) {
        outcome.steps[number].batch_loss = update(&run, number, &outcome);
        record(&run, number, &outcome.steps[number]);
    }
    unsigned char *masked = NEW_ARRAY(arena, unsigned char, outcome.sizes.vocabulary);
    masked[BOS] = 1;
    outcome.continuation = continue_greedily(arena, &run.model, data->prompt.ids, NEW_TOKENS, masked);
    outcome.parameters_preserved = run.model.parameters == before;
    outcome.gradients_cleared = all_zero(run.gradient, run.parameters);
    return outcome;
}

/* ---- comparing ---- */

static int same_doubles(const double *one, const double *other, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (bits_of(one[i]) != bits_of(other[i]))
            return 0;
    return 1;
}

static int same_step(const struct step *one, const struct step *other)
{
    return strcmp(one->parameters, other->parameters) == 0 && strcmp(one->moments, other->moments) == 0 &&
           same_doubles(&one->batch_loss, &other->batch_loss, 1) && same_doubles(&one->train, &other->train, 1) &&
           same_doubles(&one->validation, &other->validation, 1);
}

int same_bits(const struct outcome *one, const struct outcome *other)
{
    const struct continuation *a = &one->continuation, *b = &other->continuation;
    for (size_t i = 0; i <= STEPS; i++)
        if (!same_step(&one->steps[i], &other->steps[i]))
            return 0;
    return same_doubles(one->hidden, other->hidden, one->sizes.hidden) &&
           same_doubles(one->logits, other->logits, one->sizes.vocabulary) &&
           same_doubles(one->gradient_l1, other->gradient_l1, MATRICES) && a->length == b->length &&
           a->met_eos == b->met_eos && memcmp(a->ids, b->ids, a->length * sizeof *a->ids) == 0;
}
