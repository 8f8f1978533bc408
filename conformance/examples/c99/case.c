#include "case.h"

#include <string.h>

#include "failure.h"

void answer_ids(struct case_context *c, const uint64_t *ids, size_t count)
{
    field_integers(c->trace, "ids", ids, count);
}

void answer_tokens(struct case_context *c, struct tokens tokens)
{
    uint64_t *ids = NEW_ARRAY(c->arena, uint64_t, tokens.length + 1);
    for (size_t i = 0; i < tokens.length; i++)
        ids[i] = tokens.ids[i];
    answer_ids(c, ids, tokens.length);
}

void answer_values(struct case_context *c, const double *values, size_t count)
{
    field_bits_list(c->trace, "values", values, count);
}

struct tokens flat_rows(struct case_context *c, const char *name, size_t width)
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

struct epoch input_epoch(struct case_context *c)
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

unsigned char *input_mask(struct case_context *c, size_t vocabulary)
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
