/* Vector cases about numbers alone: elementary functions, choices, losses, the optimiser. */

#include <string.h>

#include "adamw.h"
#include "case.h"
#include "elementary.h"
#include "failure.h"
#include "greedy.h"
#include "loss.h"

void arithmetic_elementary(struct case_context *c)
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

void logits_argmax(struct case_context *c)
{
    struct doubles logits = doubles_of(c->arena, json_member(c->input, "logits"), "logits");
    uint64_t best = greedy_token(logits.values, logits.count, input_mask(c, logits.count));
    answer_ids(c, &best, 1);
}

void logits_mean_nll(struct case_context *c)
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

void adamw_run(struct case_context *c)
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
