/* Who serves, and what it made of a model folder. */

#include <stdlib.h>
#include <string.h>

#include "failure.h"
#include "message.h"
#include "server.h"

static void append_words(struct buffer *text, const char *name, const char *const *words, size_t count)
{
    buffer_format(text, ", \"%s\": [", name);
    for (size_t i = 0; i < count; i++)
        buffer_format(text, "%s\"%s\"", i == 0 ? "" : ", ", words[i]);
    buffer_text(text, "]");
}

void answer_start(struct server *server, const struct json *message)
{
    static const char *const features[] = {"drop", "copy", "observe", "generate", "poison", "fail-after"};
    static const char *const arms[] = {"cached", "full"};
    static const char *const parts[] = {"weights", "activations", "cache", "accumulation", "logits"};
    struct buffer *text = &server->answer.text;
    check_keys(message, "id do seconds protocol client scratch");
    if (strcmp(take_text(message, "protocol"), "1") != 0)
        not_offered("only version 1 of the protocol is spoken");
    const char *scratch = take_text(message, "scratch");
    free(server->answer.scratch);
    server->answer.scratch = malloc(strlen(scratch) + 1);
    if (server->answer.scratch == NULL)
        fail("the memory does not suffice for the name of a folder");
    strcpy(server->answer.scratch, scratch);
    buffer_text(text, "\"name\": \"cai-c99\", \"version\": \"1\", \"protocol\": \"1\", \"arithmetic\": \"strict/1\", ");
    buffer_text(text, "\"precision\": {");
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        buffer_format(text, "%s\"%s\": \"float64\"", i == 0 ? "" : ", ", parts[i]);
    buffer_text(text, "}, \"precisions\": [], \"nondeterminism\": \"none\"");
    append_words(text, "features", features, sizeof features / sizeof features[0]);
    append_words(text, "arms", arms, sizeof arms / sizeof arms[0]);
    buffer_format(text, ", \"slots\": %d", SLOTS);
}

/* What is not stated (the optimiser, the loss, padding) is not followed: this program does not train. */
static void append_conventions(struct buffer *text, const struct llama_sizes *sizes)
{
    buffer_text(text, "\"conventions\": {\"rope\": \"half-split pairs\", ");
    buffer_format(text, "\"rope_base\": \"%.0f, frequencies exp((-2j/w) * log(base))\", ", sizes->rope_base);
    if (sizes->window != 0)
        buffer_format(text, "\"window\": \"%zu, the current token included\", ", sizes->window);
    else
        buffer_text(text, "\"window\": \"none\", ");
    buffer_text(text, "\"argmax\": \"lowest id\", \"softmax_scale\": \"product with 1/sqrt(head width)\", ");
    buffer_text(text, "\"swiglu_gate\": \"a matrix of its own\", ");
    buffer_text(text, "\"norm\": \"root mean square, (x * (1 / sqrt(mean + epsilon))) * gain\", ");
    buffer_format(text, "\"norm_eps\": \"%.6f, inside the root\", ", sizes->epsilon);
    buffer_format(text, "\"tie\": \"%s\"}", sizes->tied ? "tied" : "untied");
}

void answer_load(struct server *server, const struct json *message)
{
    struct buffer *text = &server->answer.text;
    check_keys(message, "id do seconds folder precision");
    int chosen = !json_is(json_member(message, "precision"), JSON_NULL);
    if (chosen && strcmp(take_text(message, "precision"), "float64") != 0)
        not_offered("only float64 is computed in");
    engine_load(&server->engine, take_text(message, "folder"));
    const struct llama *model = &server->engine.model;
    size_t row = 2 * model->sizes.groups * model->sizes.head_width;
    append_conventions(text, &model->sizes);
    buffer_format(text, ", \"context\": %zu, \"claimed\": {", model->sizes.context);
    buffer_format(text, "\"cache_bytes\": %zu, ", model->sizes.layers * model->sizes.context * row * sizeof(double));
    buffer_format(text, "\"weight_bytes\": %zu}", model->parameters * sizeof(double));
}
