/* Greedy decoding of a model with a fixed context, which slides: the newest token comes in, the oldest goes out. */

#ifndef GREEDY_H
#define GREEDY_H

#include "ngram.h"

struct continuation {
    uint32_t *ids; /* without prompt and EOS */
    size_t length;
    int met_eos;
};

/* The id of the largest logit that is not masked, the lowest of several; `masked` holds one flag an id. */
size_t greedy_token(const double *logits, size_t vocabulary, const unsigned char *masked);

/* Continue a prompt of C ids by up to `limit` tokens; EOS ends the continuation and is not part of it. */
struct continuation continue_greedily(struct arena *arena, const struct ngram *model, const uint32_t *prompt,
                                      size_t limit, const unsigned char *masked);

#endif
