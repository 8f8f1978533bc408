/* Evaluating pieces of tokens, and showing the stages of it. */

#include "failure.h"
#include "inputs.h"
#include "message.h"
#include "server.h"

/* Stages are written as they are computed. */
struct watcher {
    struct answer *answer;
    size_t stages;
};

static void write_stage(void *who, const char *name, const size_t *shape, size_t axes, const double *values)
{
    struct watcher *watcher = who;
    buffer_format(&watcher->answer->text, "%s{\"name\": \"%s\", \"value\": ", watcher->stages++ == 0 ? "" : ", ", name);
    append_tensor(watcher->answer, shape, axes, values);
    buffer_text(&watcher->answer->text, "}");
}

static size_t *take_wanted(struct arena *arena, const struct json *list, size_t tokens, size_t *count)
{
    size_t *wanted = NEW_ARRAY(arena, size_t, (json_is(list, JSON_ARRAY) ? list->count : 0) + 1);
    struct tokens places = ids_of(arena, list, "wanted");
    for (size_t i = 0; i < places.length; i++) {
        wanted[i] = places.ids[i];
        if (wanted[i] >= tokens || (i > 0 && wanted[i] <= wanted[i - 1]))
            fail("'wanted' is not an ascending list of places among the tokens");
    }
    *count = places.length;
    return wanted;
}

static struct piece take_piece(struct server *server, const struct json *item)
{
    check_keys(item, "slot position tokens wanted");
    struct tokens tokens = ids_of(&server->memory, json_member(item, "tokens"), "tokens");
    struct piece piece = {.slot = take_integer(item, "slot", SLOTS - 1),
                          .position = take_integer(item, "position", LARGEST),
                          .feed = {.tokens = tokens.ids, .count = tokens.length, .fail_after = SIZE_MAX}};
    if (tokens.length == 0)
        fail("a piece has no tokens");
    const struct json *wanted = json_member(item, "wanted");
    piece.feed.wanted = take_wanted(&server->memory, wanted, tokens.length, &piece.feed.wanted_count);
    return piece;
}

static struct piece *take_pieces(struct server *server, const struct json *list)
{
    int taken[SLOTS] = {0};
    struct piece *pieces = NEW_ARRAY(&server->memory, struct piece, list->count);
    size_t count = 0;
    for (const struct json *item = list->first; item != NULL; item = item->next) {
        pieces[count] = take_piece(server, item);
        if (taken[pieces[count].slot]++)
            fail("two pieces belong to slot %zu", pieces[count].slot);
        engine_check(&server->engine, &server->memory, &pieces[count++]);
    }
    return pieces;
}

/* Compute one piece: the stages come first in its answer, because they are known first. */
static void write_piece(struct server *server, struct piece *piece, int observe)
{
    struct watcher watcher = {&server->answer, 0};
    struct observer observer = {write_stage, &watcher};
    size_t shape[] = {1, piece->feed.wanted_count, server->engine.model.sizes.vocabulary};
    piece->feed.observer = observe ? &observer : NULL;
    buffer_text(&server->answer.text, "{\"stages\": [");
    engine_evaluate(&server->engine, &server->memory, piece);
    buffer_text(&server->answer.text, "], \"logits\": ");
    append_tensor(&server->answer, shape, 3, piece->logits);
    buffer_text(&server->answer.text, "}");
}

void answer_evaluate(struct server *server, const struct json *message)
{
    check_keys(message, "id do seconds pieces observe");
    const struct json *list = input_array(message, "pieces");
    int observe = take_flag(message, "observe");
    if (list->count == 0)
        fail("there are no pieces");
    struct piece *pieces = take_pieces(server, list);
    if (server->engine.fails_next) {
        size_t layers = server->engine.model.sizes.layers;
        pieces[0].feed.fail_after = server->engine.fail_after < layers ? server->engine.fail_after : layers;
        server->engine.fails_next = 0;
    }
    buffer_text(&server->answer.text, "\"answers\": [");
    for (size_t i = 0; i < list->count; i++) {
        buffer_text(&server->answer.text, i == 0 ? "" : ", ");
        write_piece(server, &pieces[i], observe);
    }
    buffer_text(&server->answer.text, "]");
    for (size_t i = 0; i < list->count; i++) /* all of them, or none */
        engine_commit(&server->engine, &pieces[i]);
}
