#include "corpus.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "failure.h"
#include "utf8.h"

static const char *const PARTITION_NAMES[PARTITIONS] = {"train", "validation", "test"};
static const char STRATEGY[] = "fixed-paired-document-holdout-v1";

/* For printf's "%.*s". */
#define SHOWN(text) (int)((text).length < 80 ? (text).length : 80), (text).data

static int same_text(struct json_text a, struct json_text b)
{
    return a.length == b.length && memcmp(a.data, b.data, a.length) == 0;
}

/* ---- the shape of the two files ---- */

/* The values of an object with exactly these keys, in the order of `keys`; or those of an array of as many items. */
static void take_fields(const struct json *value, const char *const *keys, size_t count, const struct json **fields,
                        const char *what)
{
    if ((!json_is(value, JSON_OBJECT) && !json_is(value, JSON_ARRAY)) || value->count != count)
        fail("%s: an object or an array of %zu values was expected", what, count);
    const struct json *item = value->first;
    for (size_t i = 0; i < count; i++) {
        fields[i] = json_is(value, JSON_OBJECT) ? json_member(value, keys[i]) : item;
        if (fields[i] == NULL)
            fail("%s: the key '%s' is missing", what, keys[i]);
        item = item->next;
    }
}

static struct json_text take_string(const struct json *value, const char *what, const char *key)
{
    if (!json_is(value, JSON_STRING))
        fail("%s: '%s' is not a string", what, key);
    return value->string;
}

static const struct json *parse_file(struct arena *arena, struct bytes bytes, const char *what)
{
    struct json_problem problem;
    const struct json *value = json_parse(arena, bytes.data, bytes.length, &problem);
    if (value == NULL)
        fail("%s: %s at byte %zu", what, problem.text, problem.position);
    return value;
}

/* ---- the rules of a corpus ---- */

/* Lowercase ASCII kebab case: a-1 is, 1-a, a-, a--b and a_b are not. */
static int is_kebab_case(struct json_text name)
{
    int after_hyphen = 1;
    if (name.length == 0 || name.data[0] < 'a' || name.data[0] > 'z')
        return 0;
    for (size_t i = 0; i < name.length; i++) {
        char c = name.data[i];
        int alphanumeric = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        if (!alphanumeric && (c != '-' || after_hyphen))
            return 0;
        after_hyphen = c == '-';
    }
    return !after_hyphen;
}

/* The Unicode property White_Space. */
static int is_white_space(uint32_t c)
{
    return (c >= 0x09 && c <= 0x0d) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

static int is_blank(struct json_text text)
{
    size_t place = 0;
    while (place < text.length) {
        uint32_t character;
        place += utf8_decode(text.data + place, text.length - place, &character);
        if (!is_white_space(character))
            return 0;
    }
    return 1;
}

static void check_document(const struct corpus *corpus, size_t place)
{
    const struct document *document = &corpus->documents[place];
    const struct json_text names[3] = {document->identifier, document->language, document->provenance_group};
    for (int i = 0; i < 3; i++)
        if (!is_kebab_case(names[i]))
            fail("document %zu: '%.*s' is not lowercase ASCII kebab case", place + 1, SHOWN(names[i]));
    if (is_blank(document->text))
        fail("document %zu: the text is empty", place + 1);
    for (size_t i = 0; i < place; i++) {
        if (same_text(document->identifier, corpus->documents[i].identifier))
            fail("the document id '%.*s' stands twice", SHOWN(document->identifier));
        if (same_text(document->text, corpus->documents[i].text))
            fail("document %zu: another document has the same text", place + 1);
    }
}

static struct corpus parse_corpus(struct arena *arena, struct bytes bytes)
{
    static const char *const keys[4] = {"id", "language", "provenance_group", "text"};
    const struct json *value = parse_file(arena, bytes, "invalid corpus JSON");
    if (!json_is(value, JSON_ARRAY))
        fail("invalid corpus JSON: an array of documents was expected");
    if (value->count == 0)
        fail("the corpus has no documents");
    struct corpus corpus = {NEW_ARRAY(arena, struct document, value->count), 0};
    for (const struct json *item = value->first; item != NULL; item = item->next) {
        struct document *document = &corpus.documents[corpus.count++];
        struct json_text *texts[4] = {&document->identifier, &document->language, &document->provenance_group,
                                      &document->text};
        const struct json *fields[4];
        take_fields(item, keys, 4, fields, "invalid corpus JSON");
        for (int i = 0; i < 4; i++)
            *texts[i] = take_string(fields[i], "invalid corpus JSON", keys[i]);
    }
    for (size_t place = 0; place < corpus.count; place++)
        check_document(&corpus, place);
    return corpus;
}

/* ---- the rules of a split ---- */

/* FNV-1a over the exact bytes of the corpus file (Fowler, Noll and Vo). */
static void write_checksum(struct bytes bytes, char text[32])
{
    uint64_t hash = 0xcbf29ce484222325;
    for (size_t i = 0; i < bytes.length; i++)
        hash = (hash ^ (unsigned char)bytes.data[i]) * 0x100000001b3;
    snprintf(text, 32, "fnv1a64:%016" PRIx64, hash);
}

/* The place of a document in the corpus, or `count` where there is none of this id. */
static size_t place_of(const struct corpus *corpus, struct json_text identifier)
{
    size_t place = 0;
    while (place < corpus->count && !same_text(corpus->documents[place].identifier, identifier))
        place++;
    return place;
}

/* A list keeps the order of the corpus; ids that the corpus does not know are reported later. */
static void check_list(const struct corpus *corpus, const struct json *list, const char *name)
{
    if (!json_is(list, JSON_ARRAY))
        fail("invalid split manifest JSON: '%s' is not an array of strings", name);
    if (list->count == 0)
        fail("the partition '%s' is empty", name);
    size_t next = 0;
    for (const struct json *item = list->first; item != NULL; item = item->next) {
        size_t place = place_of(corpus, take_string(item, "invalid split manifest JSON", name));
        if (place < corpus->count && place < next)
            fail("the partition '%s' is not in source order", name);
        if (place < corpus->count)
            next = place + 1;
    }
}

/* PARTITIONS marks a document that no list has named so far. */
static void assign_list(struct corpus *corpus, const struct json *list, enum partition partition)
{
    for (const struct json *item = list->first; item != NULL; item = item->next) {
        size_t place = place_of(corpus, item->string);
        if (place == corpus->count)
            fail("the partition '%s' names an unknown document", PARTITION_NAMES[partition]);
        if (corpus->documents[place].partition != PARTITIONS)
            fail("the document '%.*s' has more than one manifest position", SHOWN(item->string));
        corpus->documents[place].partition = partition;
    }
}

/* Translations of each other stay on one side, so that nothing leaks. */
static void check_groups(const struct corpus *corpus)
{
    for (size_t i = 0; i < corpus->count; i++) {
        const struct document *document = &corpus->documents[i];
        if (document->partition == PARTITIONS)
            fail("no partition names the document '%.*s'", SHOWN(document->identifier));
        for (size_t j = 0; j < i; j++)
            if (same_text(document->provenance_group, corpus->documents[j].provenance_group) &&
                document->partition != corpus->documents[j].partition)
                fail("the provenance group '%.*s' is split", SHOWN(document->provenance_group));
    }
}

struct corpus read_corpus(struct arena *arena, struct bytes corpus_bytes, struct bytes splits_bytes)
{
    static const char *const keys[6] = {"schema_version", "corpus_checksum", "strategy", "train", "validation", "test"};
    static const char what[] = "invalid split manifest JSON";
    struct corpus corpus = parse_corpus(arena, corpus_bytes);
    const struct json *fields[6];
    uint64_t version;
    char checksum[32];
    take_fields(parse_file(arena, splits_bytes, what), keys, 6, fields, what);
    if (!json_unsigned(fields[0], UINT32_MAX, &version))
        fail("%s: 'schema_version' is not an unsigned 32-bit integer", what);
    if (version != 1)
        fail("the split manifest has the unsupported schema version %lu", (unsigned long)version);
    struct json_text strategy = take_string(fields[2], what, keys[2]);
    if (!json_text_is(strategy, STRATEGY))
        fail("the split manifest has the unsupported strategy '%.*s'", SHOWN(strategy));
    struct json_text claimed = take_string(fields[1], what, keys[1]);
    write_checksum(corpus_bytes, checksum);
    if (!json_text_is(claimed, checksum))
        fail("the split manifest is of the corpus %.*s, not of %s", SHOWN(claimed), checksum);
    for (size_t i = 0; i < corpus.count; i++)
        corpus.documents[i].partition = PARTITIONS;
    for (int partition = TRAIN; partition < PARTITIONS; partition++)
        check_list(&corpus, fields[3 + partition], PARTITION_NAMES[partition]);
    for (int partition = TRAIN; partition < PARTITIONS; partition++)
        assign_list(&corpus, fields[3 + partition], (enum partition)partition);
    check_groups(&corpus);
    return corpus;
}
