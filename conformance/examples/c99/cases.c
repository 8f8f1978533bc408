#include "cases.h"

#include <string.h>

#include "adamw.h"
#include "elementary.h"
#include "experiment.h"
#include "failure.h"
#include "greedy.h"
#include "inputs.h"
#include "json.h"
#include "loss.h"
#include "ngram.h"
#include "safetensors.h"
#include "tokenizer.h"
#include "windows.h"

/* What an operation may use, and where its answer goes: integers, doubles or a text. */
struct case_context {
    struct arena *arena;
    const char *folder;
    const struct json *input;
    struct trace *trace;
};

static void answer_ids(struct case_context *c, const uint64_t *ids, size_t count)
{
    field_integers(c->trace, "ids", ids, count);
}

static void answer_tokens(struct case_context *c, struct tokens tokens)
{
    uint64_t *ids = NEW_ARRAY(c->arena, uint64_t, tokens.length + 1);
    for (size_t i = 0; i < tokens.length; i++)
        ids[i] = tokens.ids[i];
    answer_ids(c, ids, tokens.length);
}

static void answer_values(struct case_context *c, const double *values, size_t count)
{
    field_bits_list(c->trace, "values", values, count);
}

/* Lists of `width` ids each, one behind the other. */
static struct tokens flat_rows(struct case_context *c, const char *name, size_t width)
{
    const struct json *rows = input_array(c->input, name);
    struct tokens flat = {NEW_ARRAY(c->arena, uint32_t, rows->count * width + 1), 0};
    for (const struct json *item = rows->first; item != NULL; item = item->next) {
        struct tokens row = ids_of(c->arena, item, name);
        if (row.length != width)
            fail("a row of '%s' does not have %zu ids", name, width);
        memcpy(flat.ids + flat.length, row.ids, width * sizeof *flat.ids);
        flat.length += width;
    }
    return flat;
}

/* ---- text ---- */

static struct tokenizer input_tokenizer(struct case_context *c)
{
    const struct json *pairs = input_array(c->input, "pairs");
    struct tokenizer tokenizer = {NEW_ARRAY(c->arena, struct pair, pairs->count + 1), 0};
    for (const struct json *item = pairs->first; item != NULL; item = item->next) {
        struct tokens pair = ids_of(c->arena, item, "pairs");
        uint32_t known = (uint32_t)(BYTE_TOKENS + tokenizer.merges);
        if (pair.length != 2 || pair.ids[0] >= known || pair.ids[1] >= known)
            fail("the merge of rank %zu is no pair of earlier tokens", tokenizer.merges);
        tokenizer.pairs[tokenizer.merges++] = (struct pair){pair.ids[0], pair.ids[1]};
    }
    return tokenizer;
}

static void bpe_train(struct case_context *c)
{
    const struct json *texts = input_array(c->input, "documents");
    struct tokens *documents = NEW_ARRAY(c->arena, struct tokens, texts->count + 1);
    size_t count = 0;
    for (const struct json *text = texts->first; text != NULL; text = text->next) {
        struct bytes bytes = bytes_of_hex(c->arena, text, "documents");
        documents[count++] = tokens_of_bytes(c->arena, bytes.data, bytes.length);
    }
    struct tokenizer learned = tokenizer_fit(c->arena, documents, count, input_size(c->input, "merges"));
    uint64_t *ids = NEW_ARRAY(c->arena, uint64_t, 2 * learned.merges + 1);
    for (size_t rank = 0; rank < learned.merges; rank++) {
        ids[2 * rank] = learned.pairs[rank].left;
        ids[2 * rank + 1] = learned.pairs[rank].right;
    }
    answer_ids(c, ids, 2 * learned.merges);
}

static void bpe_encode(struct case_context *c)
{
    struct tokenizer tokenizer = input_tokenizer(c);
    struct bytes bytes = bytes_of_hex(c->arena, json_member(c->input, "bytes"), "bytes");
    answer_tokens(c, tokenizer_encode(c->arena, &tokenizer, bytes.data, bytes.length));
}

static void bpe_decode(struct case_context *c)
{
    struct tokenizer tokenizer = input_tokenizer(c);
    struct tokens ids = ids_of(c->arena, json_member(c->input, "ids"), "ids");
    struct buffer bytes = {NULL, 0, 0}, text = {NULL, 0, 0};
    for (size_t i = 0; i < ids.length; i++)
        if (!tokenizer_decode(&tokenizer, ids.ids[i], &bytes))
            fail("the id %lu at place %zu is no content id", (unsigned long)ids.ids[i], i);
    for (size_t i = 0; i < bytes.length; i++)
        buffer_format(&text, "%02x", (unsigned)(unsigned char)bytes.data[i]);
    field_text(c->trace, "text", text.data, text.length);
    buffer_free(&bytes);
    buffer_free(&text);
}

/* ---- windows and draws ---- */

static struct epoch input_epoch(struct case_context *c)
{
    const struct json *texts = input_array(c->input, "documents");
    struct tokens *documents = NEW_ARRAY(c->arena, struct tokens, texts->count + 1);
    size_t count = 0, context = input_size(c->input, "context");
    size_t stride = json_member(c->input, "stride") == NULL ? 1 : input_size(c->input, "stride");
    for (const struct json *text = texts->first; text != NULL; text = text->next)
        documents[count++] = ids_of(c->arena, text, "documents");
    if (context == 0 || stride == 0)
        fail("a context or a stride of 0 makes no windows");
    return epoch_of(c->arena, documents, count, context, stride);
}

/* The inputs of each window, then its targets: the same tokens shifted by one. */
static void windows_list(struct case_context *c)
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
static void batches_shuffled(struct case_context *c)
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

static void splitmix_below(struct case_context *c)
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
static void init_xavier(struct case_context *c)
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

/* ---- numbers ---- */

static void arithmetic_elementary(struct case_context *c)
{
    static const struct {
        const char *name;
        double (*function)(double);
    } functions[] = {{"exp", strict_exp},   {"log", strict_log}, {"log1p", strict_log1p},
                     {"tanh", strict_tanh}, {"sin", strict_sin}, {"cos", strict_cos}};
    const struct json *name = json_member(c->input, "function");
    struct doubles x = doubles_of(c->arena, json_member(c->input, "arguments"), "arguments");
    for (size_t f = 0; f < sizeof functions / sizeof functions[0]; f++)
        if (json_is(name, JSON_STRING) && json_text_is(name->string, functions[f].name)) {
            for (size_t i = 0; i < x.count; i++)
                x.values[i] = functions[f].function(x.values[i]);
            answer_values(c, x.values, x.count);
            return;
        }
    fail("a case asks for an unknown elementary function");
}

static unsigned char *input_mask(struct case_context *c, size_t vocabulary)
{
    struct tokens ids = ids_of(c->arena, json_member(c->input, "masked"), "masked");
    unsigned char *masked = NEW_ARRAY(c->arena, unsigned char, vocabulary + 1);
    for (size_t i = 0; i < ids.length; i++) {
        if (ids.ids[i] >= vocabulary)
            fail("the masked id %lu is beyond a vocabulary of %zu", (unsigned long)ids.ids[i], vocabulary);
        masked[ids.ids[i]] = 1;
    }
    return masked;
}

static void logits_argmax(struct case_context *c)
{
    struct doubles logits = doubles_of(c->arena, json_member(c->input, "logits"), "logits");
    uint64_t best = greedy_token(logits.values, logits.count, input_mask(c, logits.count));
    answer_ids(c, &best, 1);
}

static void logits_mean_nll(struct case_context *c)
{
    const struct json *rows = input_array(c->input, "logits");
    struct tokens targets = ids_of(c->arena, json_member(c->input, "targets"), "targets");
    size_t classes = rows->first == NULL ? 0 : rows->first->count, row = 0;
    if (rows->count == 0 || targets.length != rows->count)
        fail("there is not one target for each row of logits");
    double *logits = NEW_ARRAY(c->arena, double, rows->count * classes + 1);
    for (const struct json *item = rows->first; item != NULL; item = item->next, row++) {
        struct doubles values = doubles_of(c->arena, item, "logits");
        if (values.count != classes || targets.ids[row] >= classes)
            fail("row %zu of the logits has another length, or a target beyond it", row);
        memcpy(logits + row * classes, values.values, classes * sizeof *logits);
    }
    double mean = mean_nll(logits, rows->count, classes, targets.ids);
    answer_values(c, &mean, 1);
}

static void adamw_run(struct case_context *c)
{
    struct adamw_settings settings = {input_double(c->input, "learning_rate"), input_double(c->input, "beta1"),
                                      input_double(c->input, "beta2"), input_double(c->input, "epsilon"),
                                      input_double(c->input, "weight_decay")};
    struct doubles weights = doubles_of(c->arena, json_member(c->input, "weights"), "weights");
    struct adamw optimizer = adamw_new(c->arena, settings, weights.count);
    for (const struct json *item = input_array(c->input, "gradients")->first; item != NULL; item = item->next) {
        struct doubles gradient = doubles_of(c->arena, item, "gradients");
        if (gradient.count != weights.count)
            fail("a gradient has another length than the weights");
        adamw_step(&optimizer, weights.values, gradient.values);
    }
    answer_values(c, weights.values, weights.count);
}

/* ---- the model ---- */

/* The weights that the suite ships; their shapes tell the sizes. */
static struct ngram given_model(struct case_context *c)
{
    struct bytes bytes = read_file(c->arena, c->folder, "weights.safetensors", MAXIMUM_WEIGHTS);
    struct safetensors file = safetensors_open(c->arena, bytes);
    struct tensor tensors[MATRICES];
    for (int i = EMBEDDING; i < MATRICES; i++) {
        tensors[i] = safetensors_read(c->arena, &file, NGRAM_NAMES[i]);
        if (tensors[i].axes != 2)
            fail("the tensor '%s' is not a matrix", NGRAM_NAMES[i]);
    }
    struct ngram model = {{tensors[EMBEDDING].shape[0], tensors[GATE].shape[0] / tensors[EMBEDDING].shape[1],
                           tensors[EMBEDDING].shape[1], tensors[GATE].shape[1]},
                          NULL};
    model.parameters = NEW_ARRAY(c->arena, double, ngram_offset(&model.sizes, MATRICES) + 1);
    for (int i = EMBEDDING; i < MATRICES; i++) {
        if (tensors[i].shape[0] != ngram_rows(&model.sizes, i) || tensors[i].shape[1] != ngram_columns(&model.sizes, i))
            fail("the tensor '%s' does not have the shape that the others ask for", NGRAM_NAMES[i]);
        memcpy(model.parameters + ngram_offset(&model.sizes, i), tensors[i].values, tensors[i].count * sizeof(double));
    }
    return model;
}

/* Sizes [V, C, D, H] and five lists of weights, or the name of the file that the suite ships. */
static struct ngram input_model(struct case_context *c)
{
    const struct json *weights = json_member(c->input, "weights");
    if (json_is(weights, JSON_STRING))
        return given_model(c);
    struct tokens sizes = ids_of(c->arena, json_member(c->input, "sizes"), "sizes");
    if (sizes.length != 4 || !json_is(weights, JSON_ARRAY) || weights->count != MATRICES)
        fail("a model needs four sizes and %d lists of weights", MATRICES);
    for (int i = 0; i < 4; i++)
        if (sizes.ids[i] == 0 || sizes.ids[i] > MAXIMUM_WIDTH)
            fail("a size of the model is 0 or above %d", MAXIMUM_WIDTH);
    struct ngram model = {{sizes.ids[0], sizes.ids[1], sizes.ids[2], sizes.ids[3]}, NULL};
    model.parameters = NEW_ARRAY(c->arena, double, ngram_offset(&model.sizes, MATRICES));
    const struct json *item = weights->first;
    for (int i = EMBEDDING; i < MATRICES; i++, item = item->next) {
        struct doubles values = doubles_of(c->arena, item, "weights");
        if (values.count != ngram_rows(&model.sizes, i) * ngram_columns(&model.sizes, i))
            fail("the weights '%s' are not as many as the sizes ask for", NGRAM_NAMES[i]);
        memcpy(model.parameters + ngram_offset(&model.sizes, i), values.values, values.count * sizeof(double));
    }
    return model;
}

static void ngram_forward_case(struct case_context *c)
{
    struct ngram model = input_model(c);
    struct tokens contexts = flat_rows(c, "contexts", model.sizes.context);
    size_t rows = contexts.length / model.sizes.context;
    struct stages stages = ngram_stages(c->arena, &model.sizes, rows);
    const struct json *stage = json_member(c->input, "stage");
    ngram_forward(&model, contexts.ids, rows, &stages);
    if (json_is(stage, JSON_STRING) && json_text_is(stage->string, "hidden"))
        answer_values(c, stages.hidden, rows * model.sizes.hidden);
    else if (json_is(stage, JSON_STRING) && json_text_is(stage->string, "logits"))
        answer_values(c, stages.logits, rows * model.sizes.vocabulary);
    else if (json_is(stage, JSON_STRING) &&
             (json_text_is(stage->string, "embeddings") || json_text_is(stage->string, "concatenated")))
        answer_values(c, stages.concatenated, contexts.length * model.sizes.embedding);
    else
        fail("a case asks for an unknown stage");
}

static void ngram_greedy(struct case_context *c)
{
    struct ngram model = input_model(c);
    struct tokens prompt = ids_of(c->arena, json_member(c->input, "prompt"), "prompt");
    if (prompt.length != model.sizes.context)
        fail("the prompt does not have %zu ids", model.sizes.context);
    struct continuation found = continue_greedily(c->arena, &model, prompt.ids, input_size(c->input, "limit"),
                                                  input_mask(c, model.sizes.vocabulary));
    answer_tokens(c, (struct tokens){found.ids, found.length});
}

/* Each window is a context and the token behind it. */
static void ngram_gradients(struct case_context *c)
{
    struct ngram model = input_model(c);
    size_t width = model.sizes.context, which = input_size(c->input, "parameter");
    struct tokens windows = flat_rows(c, "windows", width + 1);
    size_t rows = windows.length / (width + 1);
    struct stages stages = ngram_stages(c->arena, &model.sizes, rows);
    uint32_t *contexts = NEW_ARRAY(c->arena, uint32_t, rows * width + 1);
    uint32_t *targets = NEW_ARRAY(c->arena, uint32_t, rows + 1);
    double *gradient = NEW_ARRAY(c->arena, double, ngram_offset(&model.sizes, MATRICES));
    if (rows == 0 || which >= MATRICES)
        fail("a case asks for the gradient of no rows, or of an unknown parameter");
    for (size_t row = 0; row < rows; row++) {
        memcpy(contexts + row * width, windows.ids + row * (width + 1), width * sizeof *contexts);
        targets[row] = windows.ids[row * (width + 1) + width];
        if (targets[row] >= model.sizes.vocabulary)
            fail("the target of row %zu is beyond the vocabulary", row);
    }
    ngram_forward(&model, contexts, rows, &stages);
    ngram_backward(c->arena, &model, &stages, targets, gradient);
    size_t start = ngram_offset(&model.sizes, (int)which), end = ngram_offset(&model.sizes, (int)which + 1);
    answer_values(c, gradient + start, end - start);
}

static void ngram_evaluate(struct case_context *c)
{
    struct ngram model = input_model(c);
    struct epoch epoch = input_epoch(c);
    size_t batch = input_size(c->input, "batch");
    if (batch == 0 || epoch.count == 0 || epoch.context != model.sizes.context)
        fail("a case asks for an evaluation without windows, or with those of another model");
    for (size_t i = 0; i < epoch.count; i++)
        if (epoch.documents[epoch.slots[i].document].ids[epoch.slots[i].start + epoch.context] >= model.sizes.vocabulary)
            fail("a target of the evaluation is beyond the vocabulary");
    double mean = evaluate(c->arena, &model, &epoch, batch < epoch.count ? batch : epoch.count);
    answer_values(c, &mean, 1);
}

/* ---- all of them ---- */

static const struct {
    const char *name;
    void (*answer)(struct case_context *);
} OPERATIONS[] = {
    {"bpe.train", bpe_train},
    {"bpe.encode", bpe_encode},
    {"bpe.decode", bpe_decode},
    {"windows.list", windows_list},
    {"batches.shuffled", batches_shuffled},
    {"splitmix.below", splitmix_below},
    {"init.xavier", init_xavier},
    {"arithmetic.elementary", arithmetic_elementary},
    {"logits.argmax", logits_argmax},
    {"logits.mean-nll", logits_mean_nll},
    {"adamw.run", adamw_run},
    {"ngram.forward", ngram_forward_case},
    {"ngram.greedy", ngram_greedy},
    {"ngram.gradients", ngram_gradients},
    {"ngram.evaluate", ngram_evaluate},
};

/* A case of an unknown operation is left out: the judge reports it as skipped. */
static void answer_case(struct arena *arena, struct trace *trace, const struct json *item, const char *folder)
{
    const struct json *id = json_member(item, "id"), *operation = json_member(item, "operation");
    struct case_context c = {arena, folder, json_member(item, "input"), trace};
    if (!json_is(id, JSON_STRING) || !json_is(operation, JSON_STRING) || !json_is(c.input, JSON_OBJECT))
        fail("vectors.json: a case lacks its id, its operation or its input");
    for (size_t i = 0; i < sizeof OPERATIONS / sizeof OPERATIONS[0]; i++)
        if (json_text_is(operation->string, OPERATIONS[i].name)) {
            open_record(trace, "SAMPLE");
            field_text(trace, "case", id->string.data, id->string.length);
            field_integer(trace, "draw", 0);
            OPERATIONS[i].answer(&c);
            close_record(trace);
            return;
        }
}

void answer_cases(struct arena *arena, struct trace *trace, struct bytes vectors, const char *folder)
{
    struct json_problem problem;
    const struct json *file = json_parse(arena, vectors.data, vectors.length, &problem);
    if (file == NULL)
        fail("vectors.json: %s at byte %zu", problem.text, problem.position);
    for (const struct json *item = input_array(file, "cases")->first; item != NULL; item = item->next)
        answer_case(arena, trace, item, folder);
}
