/* Writing an answer: strings, and tensors in the line or in a file beside it. */

#ifndef ANSWER_H
#define ANSWER_H

#include <stddef.h>
#include <stdint.h>

#include "buffer.h"

struct answer {
    struct buffer text;
    char *scratch;    /* the folder for files; NULL before it is known */
    char *file;       /* the file of this answer; NULL where there is none */
    uint64_t files;   /* how many there were so far */
    size_t inline_left; /* how many bytes of tensors may still stand in the line */
    size_t offset;    /* how many bytes the file has */
};

/* Begin anew: the last answer has been read, so its file can go. */
void answer_begin(struct answer *answer);
void answer_free(struct answer *answer);

/* A string of JSON; what is not UTF-8 becomes a question mark. */
void append_string(struct buffer *text, const char *string);

/* A tensor of float64, little-endian. */
void append_tensor(struct answer *answer, const size_t *shape, size_t axes, const double *values);

#endif
