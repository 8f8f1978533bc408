#include "tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "failure.h"

/* Expansions grow with the power of the rank; nothing sensible is longer. */
enum { LONGEST_EXPANSION = 1 << 20 };

struct tokens tokens_of_bytes(struct arena *arena, const char *data, size_t length)
{
    struct tokens tokens = {NEW_ARRAY(arena, uint32_t, length + 1), length};
    for (size_t i = 0; i < length; i++)
        tokens.ids[i] = (unsigned char)data[i];
    return tokens;
}

/* Replace a pair from left to right without overlap: a a a becomes (a a) a. */
static void replace_pair(struct tokens *tokens, struct pair pair, uint32_t token)
{
    size_t kept = 0;
    for (size_t i = 0; i < tokens->length; i++) {
        int found = i + 1 < tokens->length && tokens->ids[i] == pair.left && tokens->ids[i + 1] == pair.right;
        tokens->ids[kept++] = found ? token : tokens->ids[i];
        i += (size_t)found;
    }
    tokens->length = kept;
}

static int compare_integers(const void *one, const void *other)
{
    uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;
    return (a > b) - (a < b);
}

/* Write every adjacent pair as one integer, left above right. Overlapping pairs count, and none crosses a border. */
static size_t list_pairs(const struct tokens *documents, size_t count, uint64_t *keys)
{
    size_t pairs = 0;
    for (size_t d = 0; d < count; d++)
        for (size_t i = 0; i + 1 < documents[d].length; i++)
            keys[pairs++] = (uint64_t)documents[d].ids[i] << 32 | documents[d].ids[i + 1];
    return pairs;
}

/* The most frequent pair. Sorted keys make runs in numeric order, so the first longest run is the smallest pair. */
static struct pair most_frequent(uint64_t *keys, size_t pairs)
{
    uint64_t best = keys[0];
    size_t best_count = 0;
    qsort(keys, pairs, sizeof *keys, compare_integers);
    for (size_t start = 0, end; start < pairs; start = end) {
        for (end = start; end < pairs && keys[end] == keys[start]; end++)
            ;
        if (end - start > best_count) {
            best_count = end - start;
            best = keys[start];
        }
    }
    return (struct pair){(uint32_t)(best >> 32), (uint32_t)best};
}

struct tokenizer tokenizer_fit(struct arena *arena, struct tokens *documents, size_t count, size_t requested)
{
    size_t total = 0;
    for (size_t d = 0; d < count; d++)
        total += documents[d].length;
    if (requested > total) /* every merge shortens a document */
        requested = total;
    struct tokenizer tokenizer = {NEW_ARRAY(arena, struct pair, requested + 1), 0};
    uint64_t *keys = NEW_ARRAY(arena, uint64_t, total + 1);
    while (tokenizer.merges < requested) {
        size_t pairs = list_pairs(documents, count, keys);
        if (pairs == 0)
            break;
        struct pair pair = most_frequent(keys, pairs);
        for (size_t d = 0; d < count; d++)
            replace_pair(&documents[d], pair, (uint32_t)(BYTE_TOKENS + tokenizer.merges));
        tokenizer.pairs[tokenizer.merges++] = pair;
    }
    return tokenizer;
}

struct tokens tokenizer_encode(struct arena *arena, const struct tokenizer *tokenizer, const char *data, size_t length)
{
    struct tokens tokens = tokens_of_bytes(arena, data, length);
    for (size_t rank = 0; rank < tokenizer->merges; rank++)
        replace_pair(&tokens, tokenizer->pairs[rank], (uint32_t)(BYTE_TOKENS + rank));
    for (size_t i = 0; i < tokens.length; i++)
        tokens.ids[i] += CONTENT_OFFSET;
    return tokens;
}

struct tokens tokenizer_encode_document(struct arena *arena, const struct tokenizer *tokenizer, const char *data,
                                        size_t length)
{
    struct tokens content = tokenizer_encode(arena, tokenizer, data, length);
    struct tokens document = {NEW_ARRAY(arena, uint32_t, content.length + 2), content.length + 2};
    document.ids[0] = BOS;
    memcpy(document.ids + 1, content.ids, content.length * sizeof *content.ids);
    document.ids[content.length + 1] = EOS;
    return document;
}

/* A merge expands to the bytes of its left token, then those of its right one, which are both of a lower rank. */
static void expand(const struct tokenizer *tokenizer, uint32_t token, struct buffer *bytes)
{
    if (bytes->length > LONGEST_EXPANSION)
        fail("an id expands to more than %d bytes", LONGEST_EXPANSION);
    if (token < BYTE_TOKENS) {
        unsigned char byte = (unsigned char)token;
        buffer_bytes(bytes, &byte, 1);
        return;
    }
    expand(tokenizer, tokenizer->pairs[token - BYTE_TOKENS].left, bytes);
    expand(tokenizer, tokenizer->pairs[token - BYTE_TOKENS].right, bytes);
}

int tokenizer_decode(const struct tokenizer *tokenizer, uint32_t id, struct buffer *bytes)
{
    if (id < CONTENT_OFFSET || id >= tokenizer_vocabulary(tokenizer))
        return 0;
    expand(tokenizer, id - CONTENT_OFFSET, bytes);
    return 1;
}

size_t tokenizer_vocabulary(const struct tokenizer *tokenizer)
{
    return CONTENT_OFFSET + BYTE_TOKENS + tokenizer->merges;
}
