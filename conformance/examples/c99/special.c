#include "special.h"

#include <string.h>

/* The longest name that stands at `data`, or NULL. */
static const struct special *special_at(const char *data, size_t length, const struct special *allowed, size_t count)
{
    const struct special *found = NULL;
    for (size_t i = 0; i < count; i++)
        if (allowed[i].length <= length && memcmp(data, allowed[i].name, allowed[i].length) == 0 &&
            (found == NULL || allowed[i].length > found->length))
            found = &allowed[i];
    return found;
}

struct tokens tokenizer_encode_special(struct arena *arena, const struct tokenizer *tokenizer, const char *data,
                                       size_t length, const struct special *allowed, size_t count)
{
    struct tokens ids = {NEW_ARRAY(arena, uint32_t, length + 1), 0}; /* no id stands for less than a byte */
    size_t start = 0, place = 0;
    while (place <= length) {
        const struct special *found = special_at(data + place, length - place, allowed, count);
        if (found != NULL || place == length) { /* what stands before it is encoded as a piece of its own */
            struct tokens piece = tokenizer_encode(arena, tokenizer, data + start, place - start);
            memcpy(ids.ids + ids.length, piece.ids, piece.length * sizeof *piece.ids);
            ids.length += piece.length;
        }
        if (found == NULL) {
            place++;
            continue;
        }
        ids.ids[ids.length++] = found->id;
        place += found->length;
        start = place;
    }
    return ids;
}
