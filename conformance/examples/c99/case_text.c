/* Vector cases about text: merges, encoding, decoding. */

#include "case.h"
#include "failure.h"

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

void bpe_decode(struct case_context *c)
{
    struct tokenizer tokenizer = input_tokenizer(c);
    struct tokens ids = ids_of(c->arena, json_member(c->input, "ids"), "ids");
    struct buffer bytes = {NULL, 0, 0}, text = {NULL, 0, 0};
    for (size_t i = 0; i < ids.length; i++)
        if (!tokenizer_decode(&tokenizer, ids.ids[i], &bytes))
            fail("the id %lu at place %zu is no content id", (unsigned long)ids.ids[i], i);
    for (size_t i = 0; i < bytes.length; i++)
        buffer_format(&text, "%02x", (unsigned)(unsigned char)bytes.data[i]);
    field_text(c->trace, "text", text.data, text.length);
    buffer_free(&bytes);
    buffer_free(&text);
}
