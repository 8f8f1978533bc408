/* A corpus and its held-out split: which documents are trained on, validated on, and left alone. */

#ifndef CORPUS_H
#define CORPUS_H

#include "arena.h"
#include "files.h"
#include "json.h"

enum partition { TRAIN, VALIDATION, TEST, PARTITIONS };

struct document {
    struct json_text identifier, language, provenance_group, text;
    enum partition partition;
};

struct corpus {
    struct document *documents; /* in file order */
    size_t count;
};

/* Read, check and split; the program fails at the first rule that is broken. */
struct corpus read_corpus(struct arena *arena, struct bytes corpus, struct bytes splits);

#endif
