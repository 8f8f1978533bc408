#include "serve.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "buffer.h"
#include "failure.h"
#include "message.h"
#include "server.h"

enum { LINE_BYTES = 16 << 20 };

/* Requests are answered in order, so what is to be cancelled is done by the time this is read. */
static void answer_cancel(struct server *server, const struct json *message)
{
    (void)server;
    check_keys(message, "id do seconds request");
}

static void answer_stop(struct server *server, const struct json *message)
{
    check_keys(message, "id do seconds");
    server->stopped = 1;
}

static const struct {
    const char *name;
    void (*answer)(struct server *, const struct json *);
} MESSAGES[] = {
    {"start", answer_start},     {"load", answer_load},     {"evaluate", answer_evaluate}, {"clear", answer_clear},
    {"drop", answer_drop},       {"copy", answer_copy},     {"generate", answer_generate}, {"poison", answer_poison},
    {"fail-after", answer_fail_after}, {"cancel", answer_cancel}, {"stop", answer_stop},
};

static void answer_message(struct server *server, const struct json *message)
{
    const char *name = take_text(message, "do");
    for (size_t i = 0; i < sizeof MESSAGES / sizeof MESSAGES[0]; i++)
        if (strcmp(name, MESSAGES[i].name) == 0) {
            buffer_text(&server->answer.text, "\"ok\": {");
            MESSAGES[i].answer(server, message);
            buffer_text(&server->answer.text, "}");
            return;
        }
    not_offered("the message '%.60s' is not known here", name);
}

/* Answer a message; whatever fails meanwhile becomes the answer. */
static void answer_or_refuse(struct server *server, const struct json *message, uint64_t id)
{
    struct trap trap;
    struct buffer *text = &server->answer.text;
    answer_begin(&server->answer);
    if (setjmp(trap.place) == 0) {
        set_trap(&trap);
        buffer_format(text, "{\"id\": %" PRIu64 ", ", id);
        answer_message(server, message);
    } else {
        set_trap(NULL);
        answer_begin(&server->answer);
        const char *outcome = trap.code == EXIT_NOT_OFFERED ? "skipped" : "errored";
        buffer_format(text, "{\"id\": %" PRIu64 ", \"%s\": ", id, outcome);
        append_string(text, trap.text);
    }
    set_trap(NULL);
    buffer_text(text, "}\n");
}

/* A line that is no message has no id to answer to: the conversation ends. */
static void answer_line(struct server *server, const char *line, size_t length)
{
    struct json_problem problem;
    const struct json *message = json_parse(&server->memory, line, length, &problem);
    uint64_t id;
    if (message == NULL)
        fail("a line is not JSON: %s at byte %zu", problem.text, problem.position);
    if (!json_unsigned(json_member(message, "id"), LARGEST, &id))
        fail("a line is no message: it has no 'id'");
    answer_or_refuse(server, message, id);
    const struct buffer *text = &server->answer.text;
    if (fwrite(text->data, 1, text->length, stdout) != text->length || fflush(stdout) != 0)
        fail("an answer cannot be written");
    arena_free(&server->memory);
}

/* Read a line without its end into `line`, with a NUL behind it; return 0 at the end of the input. */
static int read_line(struct buffer *line)
{
    int c;
    buffer_clear(line);
    while ((c = getchar()) != EOF && c != '\n') {
        char byte = (char)c;
        if (line->length + 1 >= LINE_BYTES)
            fail("a line is longer than %d bytes", LINE_BYTES);
        buffer_bytes(line, &byte, 1);
    }
    if (c == EOF && line->length > 0)
        fail("the last line is cut off");
    buffer_bytes(line, "", 1);
    return c != EOF;
}

void serve(void)
{
    static struct server server; /* static, so that a jump out of a request cannot spoil it */
    struct buffer line = {NULL, 0, 0};
    while (!server.stopped && read_line(&line))
        answer_line(&server, line.data, line.length - 1);
    buffer_free(&line);
    answer_free(&server.answer);
    engine_unload(&server.engine);
}
