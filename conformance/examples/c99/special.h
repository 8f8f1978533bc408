/* Special tokens in text: ids that no text becomes by itself.

   Text that spells the name of a special token is text, and merges as text does. Only names that a caller allows are
   read as tokens, and no merge reaches over one. */

#ifndef SPECIAL_H
#define SPECIAL_H

#include "tokenizer.h"

struct special {
    const char *name; /* of `length` bytes, at least one */
    size_t length;
    uint32_t id;
};

/* Ids of a text in which these names are tokens. The text is read from left to right; of names that start together the
   longest is taken. */
struct tokens tokenizer_encode_special(struct arena *arena, const struct tokenizer *tokenizer, const char *data,
                                       size_t length, const struct special *allowed, size_t count);

#endif
