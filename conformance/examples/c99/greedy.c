#include "greedy.h"

#include <math.h>
#include <string.h>

#include "failure.h"
#include "tokenizer.h"

size_t greedy_token(const double *logits, size_t vocabulary, const unsigned char *masked)
{
    size_t best = vocabulary;
    for (size_t id = 0; id < vocabulary; id++) {
        if (!isfinite(logits[id])) /* an error even where the id is masked */
            fail("the logit of id %zu is not finite", id);
        if (!masked[id] && (best == vocabulary || logits[id] > logits[best]))
            best = id;
    }
    if (best == vocabulary)
        fail("every id is masked");
    return best;
}

struct continuation continue_greedily(struct arena *arena, const struct ngram *model, const uint32_t *prompt,
                                      size_t limit, const unsigned char *masked)
{
    size_t context = model->sizes.context;
    struct stages stages = ngram_stages(arena, &model->sizes, 1);
    struct continuation found = {NEW_ARRAY(arena, uint32_t, limit + 1), 0, 0};
    uint32_t *window = NEW_ARRAY(arena, uint32_t, context);
    memcpy(window, prompt, context * sizeof *window);
    while (found.length < limit) {
        ngram_forward(model, window, 1, &stages);
        uint32_t token = (uint32_t)greedy_token(stages.logits, model->sizes.vocabulary, masked);
        if (token == EOS) {
            found.met_eos = 1;
            break;
        }
        found.ids[found.length++] = token;
        memmove(window, window + 1, (context - 1) * sizeof *window);
        window[context - 1] = token;
    }
    return found;
}
