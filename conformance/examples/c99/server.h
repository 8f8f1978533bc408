/* What serves: an engine, the answer that is being written, and one function for each message. */

#ifndef SERVER_H
#define SERVER_H

#include "answer.h"
#include "arena.h"
#include "engine.h"
#include "json.h"

struct server {
    struct engine engine;
    struct answer answer;
    struct arena memory; /* what belongs to one request */
    int stopped;
};

/* Each writes what stands between the braces behind "ok". */
void answer_start(struct server *server, const struct json *message);
void answer_load(struct server *server, const struct json *message);
void answer_evaluate(struct server *server, const struct json *message);
void answer_clear(struct server *server, const struct json *message);
void answer_drop(struct server *server, const struct json *message);
void answer_copy(struct server *server, const struct json *message);
void answer_poison(struct server *server, const struct json *message);
void answer_fail_after(struct server *server, const struct json *message);
void answer_generate(struct server *server, const struct json *message);

#endif
