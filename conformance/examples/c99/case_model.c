/* Vector cases about the model, on weights that stand in the case or are shipped by the suite. */

#include <string.h>

#include "case.h"
#include "experiment.h"
#include "failure.h"
#include "greedy.h"
#include "ngram.h"
#include "safetensors.h"

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

void model_forward(struct case_context *c)
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

void model_greedy(struct case_context *c)
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
void model_gradients(struct case_context *c)
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

void model_evaluate(struct case_context *c)
{
    struct ngram model = input_model(c);
    struct epoch epoch = input_epoch(c);
    size_t batch = input_size(c->input, "batch");
    if (batch == 0 || epoch.count == 0 || epoch.context != model.sizes.context)
        fail("a case asks for an evaluation without windows, or with those of another model");
    for (size_t i = 0; i < epoch.count; i++) {
        struct slot slot = epoch.slots[i];
        if (epoch.documents[slot.document].ids[slot.start + epoch.context] >= model.sizes.vocabulary)
            fail("a target of the evaluation is beyond the vocabulary");
    }
    double mean = evaluate(c->arena, &model, &epoch, batch < epoch.count ? batch : epoch.count);
    answer_values(c, &mean, 1);
}
