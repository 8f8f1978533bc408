#include "records.h"

#include <math.h>
#include <string.h>

enum { PREVIEW = 6 };

void write_conventions(struct trace *trace)
{
    static const char *const conventions[][2] = {
        {"rope", "none"},
        {"rope_base", "none"},
        {"window", "fixed context, oldest token first"},
        {"argmax", "lowest id, BOS masked"},
        {"softmax_scale", "none"},
        {"swiglu_gate", "first projection"},
        {"norm", "none"},
        {"norm_eps", "none"},
        {"tie", "untied"},
        {"adamw", "decoupled decay of the weight before the update, epsilon outside the root, running beta products"},
        {"loss", "mean over rows of the last shifted target"},
        {"padding", "none"},
    };
    open_record(trace, "CONVENTION");
    for (size_t i = 0; i < sizeof conventions / sizeof conventions[0]; i++)
        field_text(trace, conventions[i][0], conventions[i][1], strlen(conventions[i][1]));
    close_record(trace);
}

/* Ids are written as integers. */
static void field_ids(struct trace *trace, const char *name, const uint32_t *ids, size_t count)
{
    uint64_t values[CONTEXT + NEW_TOKENS];
    for (size_t i = 0; i < count; i++)
        values[i] = ids[i];
    field_integers(trace, name, values, count);
}

static void write_config(struct trace *trace, const struct ngram_sizes *sizes)
{
    const struct {
        const char *name;
        size_t value;
    } integers[] = {
        {"vocabulary", sizes->vocabulary},
        {"merges", MERGES},
        {"context", sizes->context},
        {"embedding", sizes->embedding},
        {"concatenated", sizes->context * sizes->embedding},
        {"swiglu_inner", sizes->hidden},
        {"hidden", sizes->hidden},
        {"parameters", ngram_offset(sizes, MATRICES)},
        {"batch", BATCH},
        {"evaluation_batch", EVALUATION_BATCH},
        {"init_seed", INIT_SEED},
        {"shuffle_seed", SHUFFLE_SEED},
        {"max_steps", STEPS},
    };
    open_record(trace, "CONFIG");
    for (size_t i = 0; i < sizeof integers / sizeof integers[0]; i++)
        field_integer(trace, integers[i].name, integers[i].value);
    field_real(trace, "lr", SETTINGS.rate, 6);
    field_real(trace, "beta1", SETTINGS.beta1, 6);
    field_real(trace, "beta2", SETTINGS.beta2, 6);
    field_real(trace, "epsilon", SETTINGS.epsilon, 9);
    field_real(trace, "weight_decay", SETTINGS.decay, 6);
    close_record(trace);
}

static void write_split(struct trace *trace, const struct prepared *data)
{
    open_record(trace, "SPLIT");
    field_integer(trace, "train_documents", data->train_documents);
    field_integer(trace, "validation_documents", data->validation_documents);
    field_word(trace, "test_text_used", data->test_text_used ? "yes" : "no");
    field_integer(trace, "train_contexts", data->train.count);
    field_integer(trace, "validation_contexts", data->validation.count);
    field_integer(trace, "train_batches", batches_of(&data->shuffled, BATCH));
    field_integer(trace, "train_evaluation_batches", batches_of(&data->train, EVALUATION_BATCH));
    field_integer(trace, "validation_evaluation_batches", batches_of(&data->validation, EVALUATION_BATCH));
    close_record(trace);
}

static void open_stage(struct trace *trace, uint64_t index, const char *name, const uint64_t *shape, size_t axes)
{
    open_record(trace, "STAGE");
    field_integer(trace, "index", index);
    field_word(trace, "name", name);
    field_integers(trace, "shape", shape, axes);
}

static void write_values(struct trace *trace, uint64_t index, const char *name, const uint64_t *shape, size_t axes,
                         const double *values)
{
    size_t count = 1;
    for (size_t i = 0; i < axes; i++)
        count *= (size_t)shape[i];
    open_stage(trace, index, name, shape, axes);
    field_reals(trace, "values", values, count);
    close_record(trace);
}

static void write_stages(struct trace *trace, const struct prepared *data, const struct outcome *outcome)
{
    const struct ngram_sizes *sizes = &outcome->sizes;
    open_stage(trace, 0, "context_ids", (uint64_t[]){1, sizes->context}, 2);
    field_ids(trace, "ids", data->prompt.ids, data->prompt.length);
    close_record(trace);
    const uint64_t side_by_side[] = {1, sizes->context * sizes->embedding};
    write_values(trace, 1, "embeddings", (uint64_t[]){1, sizes->context, sizes->embedding}, 3, outcome->embeddings);
    write_values(trace, 2, "concatenated", side_by_side, 2, outcome->embeddings);
    write_values(trace, 3, "hidden", (uint64_t[]){1, sizes->hidden}, 2, outcome->hidden);
    open_stage(trace, 4, "logits", (uint64_t[]){1, sizes->vocabulary}, 2);
    field_reals(trace, "preview", outcome->logits, PREVIEW);
    field_integer(trace, "argmax", outcome->argmax);
    field_real(trace, "argmax_logit", outcome->logits[outcome->argmax], 6);
    close_record(trace);
}

static void write_losses(struct trace *trace, const struct outcome *outcome)
{
    const struct step *first = &outcome->steps[REPORTED_STEPS[0]];
    const struct step *last = &outcome->steps[REPORTED_STEPS[REPORTS - 1]];
    for (size_t i = 0; i < REPORTS; i++) {
        const struct step *step = &outcome->steps[REPORTED_STEPS[i]];
        open_record(trace, "LOSS");
        field_integer(trace, "step", REPORTED_STEPS[i]);
        field_real(trace, "train", step->train, 6);
        field_real(trace, "validation", step->validation, 6);
        close_record(trace);
    }
    open_record(trace, "RESULT");
    field_integer(trace, "step", REPORTED_STEPS[REPORTS - 1]);
    field_real(trace, "initial_validation", first->validation, 6);
    field_real(trace, "final_validation", last->validation, 6);
    field_real(trace, "improvement", first->validation - last->validation, 6); /* of the full doubles */
    close_record(trace);
}

static void write_generation(struct trace *trace, const struct prepared *data, const struct outcome *outcome)
{
    open_record(trace, "GENERATE");
    field_text(trace, "prompt", PROMPT, strlen(PROMPT));
    field_ids(trace, "prompt_ids", data->prompt.ids, data->prompt.length);
    field_ids(trace, "ids", outcome->continuation.ids, outcome->continuation.length);
    field_word(trace, "stop", outcome->continuation.met_eos ? "eos" : "limit");
    close_record(trace);
}

static void write_proof(struct trace *trace, const struct prepared *data, const struct outcome *outcome, int replays)
{
    int positive = 1;
    for (int i = 0; i < MATRICES; i++)
        positive = positive && isfinite(outcome->gradient_l1[i]) && outcome->gradient_l1[i] > 0.0;
    open_record(trace, "PROOF");
    field_word(trace, "replay", replays ? "bitwise" : "changed");
    field_word(trace, "test_text", data->test_text_used ? "encoded_or_scored" : "not_encoded_or_scored");
    field_word(trace, "target", "final_shifted");
    field_word(trace, "gradient_l1", positive ? "five_positive_finite" : "invalid");
    field_word(trace, "parameter_nodes", outcome->parameters_preserved ? "preserved" : "replaced");
    field_word(trace, "gradients", outcome->gradients_cleared ? "cleared" : "retained");
    field_word(trace, "generation", "deterministic");
    close_record(trace);
}

static void write_bits(struct trace *trace, const struct outcome *outcome, size_t number)
{
    const struct step *step = &outcome->steps[number];
    open_record(trace, "BITS");
    field_integer(trace, "step", number);
    field_word(trace, "parameters", step->parameters);
    field_word(trace, "moments", step->moments);
    if (number > 0)
        field_bits(trace, "batch_loss", step->batch_loss);
    if (step->evaluated) {
        field_bits(trace, "train", step->train);
        field_bits(trace, "validation", step->validation);
    }
    if (number == 0) {
        field_bits_list(trace, "embeddings", outcome->embeddings, outcome->sizes.context * outcome->sizes.embedding);
        field_bits_list(trace, "hidden", outcome->hidden, outcome->sizes.hidden);
        field_bits_list(trace, "logits", outcome->logits, outcome->sizes.vocabulary);
    }
    if (number == 1)
        field_bits_list(trace, "gradient_l1", outcome->gradient_l1, MATRICES);
    close_record(trace);
}

void write_experiment(struct trace *trace, const struct prepared *data, const struct outcome *outcome, int replays)
{
    write_conventions(trace);
    write_config(trace, &outcome->sizes);
    write_split(trace, data);
    write_stages(trace, data, outcome);
    write_losses(trace, outcome);
    write_generation(trace, data, outcome);
    write_proof(trace, data, outcome, replays);
    for (size_t number = 0; number <= STEPS; number++)
        write_bits(trace, outcome, number);
}
