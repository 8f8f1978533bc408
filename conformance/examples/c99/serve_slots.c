/* Messages about slots. */

#include "inputs.h"
#include "message.h"
#include "server.h"

void answer_clear(struct server *server, const struct json *message)
{
    check_keys(message, "id do seconds slot");
    engine_clear(&server->engine, take_integer(message, "slot", SLOTS - 1));
}

void answer_drop(struct server *server, const struct json *message)
{
    check_keys(message, "id do seconds slot first last");
    engine_drop(&server->engine, take_integer(message, "slot", SLOTS - 1), take_integer(message, "first", LARGEST),
                take_integer_or_null(message, "last", LARGEST, SIZE_MAX));
}

void answer_copy(struct server *server, const struct json *message)
{
    check_keys(message, "id do seconds source target");
    size_t source = take_integer(message, "source", SLOTS - 1);
    engine_copy(&server->engine, source, take_integer(message, "target", SLOTS - 1));
}

void answer_poison(struct server *server, const struct json *message)
{
    check_keys(message, "id do seconds value");
    engine_poison(&server->engine, input_double(message, "value"));
}

void answer_fail_after(struct server *server, const struct json *message)
{
    check_keys(message, "id do seconds layers");
    server->engine.fail_after = take_integer(message, "layers", LARGEST);
    server->engine.fails_next = 1;
}
