/* Byte-pair coding on raw bytes (Sennrich, Haddow and Birch, 2016).

   Training tokens are the bytes 0 to 255 and the merges 256 + rank. Content ids are training tokens + 2, so that 0 and
   1 are free for BOS and EOS. */

#ifndef TOKENIZER_H
#define TOKENIZER_H

#include <stddef.h>
#include <stdint.h>

#include "arena.h"
#include "buffer.h"

enum { BOS = 0, EOS = 1, CONTENT_OFFSET = 2, BYTE_TOKENS = 256 };

struct pair {
    uint32_t left, right; /* training tokens */
};

struct tokenizer {
    struct pair *pairs; /* by rank */
    size_t merges;
};

struct tokens {
    uint32_t *ids;
    size_t length;
};

/* The raw bytes of a document as training tokens. */
struct tokens tokens_of_bytes(struct arena *arena, const char *data, size_t length);

/* Learn up to `requested` merges from documents of training tokens, which are merged in place; fewer where no pair is
   left. A merge may hold spaces, and a pair that occurs once is merged, too. */
struct tokenizer tokenizer_fit(struct arena *arena, struct tokens *documents, size_t count, size_t requested);

/* Content ids of any bytes: one pass a merge, in rank order, over the whole sequence. */
struct tokens tokenizer_encode(struct arena *arena, const struct tokenizer *tokenizer, const char *data, size_t length);

/* BOS, the content ids, EOS. */
struct tokens tokenizer_encode_document(struct arena *arena, const struct tokenizer *tokenizer, const char *data,
                                        size_t length);

/* Append the bytes of a content id; return 0 where it is no content id of this vocabulary. */
int tokenizer_decode(const struct tokenizer *tokenizer, uint32_t id, struct buffer *bytes);

size_t tokenizer_vocabulary(const struct tokenizer *tokenizer);

#endif
