/* Vector cases about text: merges, encoding, decoding, special tokens, streams. */

#include <string.h>

#include "case.h"
#include "failure.h"
#include "special.h"
#include "text_stream.h"

static struct tokenizer input_tokenizer(struct case_context *c)
{
    const struct json *pairs = input_array(c->input, "pairs");
    struct tokenizer tokenizer = {NEW_ARRAY(c->arena, struct pair, pairs->count + 1), 0};
    for (const struct json *item = pairs->first; item != NULL; item = item->next) {
        struct tokens pair = ids_of(c->arena, item, "pairs");
        uint32_t known = (uint32_t)(BYTE_TOKENS + tokenizer.merges);
        if (pair.length != 2 || pair.ids[0] >= known || pair.ids[1] >= known)
            fail("the merge of rank %zu is no pair of earlier tokens", tokenizer.merges);
        tokenizer.pairs[tokenizer.merges++] = (struct pair){pair.ids[0], pair.ids[1]};
    }
    return tokenizer;
}

void bpe_train(struct case_context *c)
{
    const struct json *texts = input_array(c->input, "documents");
    struct tokens *documents = NEW_ARRAY(c->arena, struct tokens, texts->count + 1);
    size_t count = 0;
    for (const struct json *text = texts->first; text != NULL; text = text->next) {
        struct bytes bytes = bytes_of_hex(c->arena, text, "documents");
        documents[count++] = tokens_of_bytes(c->arena, bytes.data, bytes.length);
    }
    struct tokenizer learned = tokenizer_fit(c->arena, documents, count, input_size(c->input, "merges"));
    uint64_t *ids = NEW_ARRAY(c->arena, uint64_t, 2 * learned.merges + 1);
    for (size_t rank = 0; rank < learned.merges; rank++) {
        ids[2 * rank] = learned.pairs[rank].left;
        ids[2 * rank + 1] = learned.pairs[rank].right;
    }
    answer_ids(c, ids, 2 * learned.merges);
}

void bpe_encode(struct case_context *c)
{
    struct tokenizer tokenizer = input_tokenizer(c);
    struct bytes bytes = bytes_of_hex(c->arena, json_member(c->input, "bytes"), "bytes");
    answer_tokens(c, tokenizer_encode(c->arena, &tokenizer, bytes.data, bytes.length));
}

static void decode_id(const struct tokenizer *tokenizer, struct tokens ids, size_t place, struct buffer *bytes)
{
    if (!tokenizer_decode(tokenizer, ids.ids[place], bytes))
        fail("the id %lu at place %zu is no content id", (unsigned long)ids.ids[place], place);
}

static void append_hexadecimal(struct buffer *text, const struct buffer *bytes)
{
    for (size_t i = 0; i < bytes->length; i++)
        buffer_format(text, "%02x", (unsigned)(unsigned char)bytes->data[i]);
}

void bpe_decode(struct case_context *c)
{
    struct tokenizer tokenizer = input_tokenizer(c);
    struct tokens ids = ids_of(c->arena, json_member(c->input, "ids"), "ids");
    struct buffer bytes = {NULL, 0, 0}, text = {NULL, 0, 0};
    for (size_t i = 0; i < ids.length; i++)
        decode_id(&tokenizer, ids, i, &bytes);
    append_hexadecimal(&text, &bytes);
    field_text(c->trace, "text", text.data, text.length);
    buffer_free(&bytes);
    buffer_free(&text);
}

static struct special special_named(struct case_context *c, struct bytes name, const struct tokenizer *tokenizer)
{
    const struct json *known = input_array(c->input, "special");
    for (const struct json *item = known->first; item != NULL; item = item->next) {
        struct bytes spelled = bytes_of_hex(c->arena, json_member(item, "spelled"), "spelled");
        if (spelled.length != name.length || memcmp(spelled.data, name.data, name.length) != 0)
            continue;
        uint64_t id = input_integer(item, "id");
        if (name.length == 0 || id > UINT32_MAX || (id >= CONTENT_OFFSET && id < tokenizer_vocabulary(tokenizer)))
            fail("a special token has an empty name, or an id that stands for text");
        return (struct special){name.data, name.length, (uint32_t)id};
    }
    fail("an allowed name is that of no special token");
}

void bpe_encode_special(struct case_context *c)
{
    struct tokenizer tokenizer = input_tokenizer(c);
    struct bytes bytes = bytes_of_hex(c->arena, json_member(c->input, "bytes"), "bytes");
    const struct json *names = input_array(c->input, "allowed");
    struct special *allowed = NEW_ARRAY(c->arena, struct special, names->count + 1);
    size_t count = 0;
    for (const struct json *name = names->first; name != NULL; name = name->next)
        allowed[count++] = special_named(c, bytes_of_hex(c->arena, name, "allowed"), &tokenizer);
    answer_tokens(c, tokenizer_encode_special(c->arena, &tokenizer, bytes.data, bytes.length, allowed, count));
}

/* One piece for each id and one for the end, with blanks between them; a piece that is empty is a hyphen. */
void bpe_decode_stream(struct case_context *c)
{
    struct tokenizer tokenizer = input_tokenizer(c);
    struct tokens ids = ids_of(c->arena, json_member(c->input, "ids"), "ids");
    struct buffer bytes = {NULL, 0, 0}, piece = {NULL, 0, 0}, text = {NULL, 0, 0};
    struct text_stream stream = {{NULL, 0, 0}};
    for (size_t i = 0; i <= ids.length; i++) {
        buffer_clear(&bytes);
        buffer_clear(&piece);
        if (i < ids.length) {
            decode_id(&tokenizer, ids, i, &bytes);
            text_stream_push(&stream, bytes.data, bytes.length, &piece);
        } else
            text_stream_finish(&stream, &piece);
        buffer_text(&text, i > 0 ? " " : "");
        if (piece.length > 0)
            append_hexadecimal(&text, &piece);
        else
            buffer_text(&text, "-");
    }
    field_text(c->trace, "text", text.data, text.length);
    buffer_free(&bytes);
    buffer_free(&piece);
    buffer_free(&text);
}
