#include "cases.h"

#include "case.h"
#include "failure.h"
#include "inputs.h"
#include "json.h"

static const struct {
    const char *name;
    void (*answer)(struct case_context *);
} OPERATIONS[] = {
    {"bpe.train", bpe_train},
    {"bpe.encode", bpe_encode},
    {"bpe.decode", bpe_decode},
    {"bpe.encode-special", bpe_encode_special},
    {"bpe.decode-stream", bpe_decode_stream},
    {"windows.list", windows_list},
    {"batches.shuffled", batches_shuffled},
    {"splitmix.below", splitmix_below},
    {"init.xavier", init_xavier},
    {"arithmetic.elementary", arithmetic_elementary},
    {"logits.argmax", logits_argmax},
    {"logits.mean-nll", logits_mean_nll},
    {"adamw.run", adamw_run},
    {"ngram.forward", model_forward},
    {"ngram.greedy", model_greedy},
    {"ngram.gradients", model_gradients},
    {"ngram.evaluate", model_evaluate},
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
            set_failure_context(id->string.data);
            open_record(trace, "SAMPLE");
            field_text(trace, "case", id->string.data, id->string.length);
            field_integer(trace, "draw", 0);
            OPERATIONS[i].answer(&c);
            close_record(trace);
            set_failure_context(NULL);
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
