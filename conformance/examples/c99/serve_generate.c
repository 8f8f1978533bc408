/* Generating by a loop of our own. */

#include <inttypes.h>
#include <string.h>

#include "bits.h"
#include "failure.h"
#include "inputs.h"
#include "message.h"
#include "server.h"

static void append_top(struct buffer *text, const struct generated *found)
{
    buffer_text(text, ", \"top\": [");
    for (size_t step = 0; step < found->length && found->top > 0; step++) {
        buffer_text(text, step == 0 ? "[" : ", [");
        for (size_t i = step * found->top; i < (step + 1) * found->top; i++)
            buffer_format(text, "%s[%lu, \"%016" PRIx64 "\"]", i == step * found->top ? "" : ", ",
                          (unsigned long)found->top_ids[i], bits_of(found->top_values[i]));
        buffer_text(text, "]");
    }
    buffer_text(text, "]");
}

void answer_generate(struct server *server, const struct json *message)
{
    check_keys(message, "id do seconds prompt new_tokens arm stop top");
    struct tokens prompt = ids_of(&server->memory, json_member(message, "prompt"), "prompt");
    const char *arm = take_text(message, "arm");
    struct generation order = {.prompt = prompt.ids,
                               .prompt_length = prompt.length,
                               .new_tokens = take_integer(message, "new_tokens", LARGEST),
                               .reencodes = strcmp(arm, "full") == 0,
                               .stops = !json_is(json_member(message, "stop"), JSON_NULL),
                               .top = take_integer(message, "top", LARGEST)};
    if (order.stops)
        order.stop = (uint32_t)take_integer(message, "stop", UINT32_MAX);
    if (!order.reencodes && strcmp(arm, "cached") != 0)
        not_offered("the arms are cached and full");
    if (prompt.length == 0)
        fail("the prompt is empty");
    struct generated found = engine_generate(&server->engine, &server->memory, &order);
    struct buffer *text = &server->answer.text;
    buffer_text(text, "\"ids\": [");
    for (size_t i = 0; i < found.length; i++)
        buffer_format(text, "%s%lu", i == 0 ? "" : ", ", (unsigned long)found.ids[i]);
    buffer_text(text, "]");
    append_top(text, &found);
}
