/* A foreign backend for cai-conform.

       cai-c99 trace SUITE --vectors FOLDER [--profile PROFILE] [--arithmetic ARITHMETIC]

   prints the trace of one suite on standard output. Exit code 0: here is the trace; 2: something is wrong, and standard
   error says what; 3: this program does not offer that.

       cai-c99 serve

   loads model folders and answers questions about them, line by line. */

#include <string.h>

#include "arena.h"
#include "cases.h"
#include "experiment.h"
#include "failure.h"
#include "files.h"
#include "json.h"
#include "records.h"
#include "serve.h"
#include "sha256.h"
#include "trace.h"

enum { MAXIMUM_CORPUS = 1 << 20, MAXIMUM_JSON = 1 << 24 };

static const char USAGE[] =
    "call it as: cai-c99 serve, or cai-c99 trace SUITE --vectors FOLDER --profile PROFILE --arithmetic ARITHMETIC";

struct options {
    const char *suite, *vectors, *profile, *arithmetic;
};

static struct options read_options(int count, char **arguments)
{
    struct options options = {NULL, NULL, "golden", "strict/1"};
    for (int i = 0; i < count; i++) {
        const char **value = strcmp(arguments[i], "--vectors") == 0      ? &options.vectors
                             : strcmp(arguments[i], "--profile") == 0    ? &options.profile
                             : strcmp(arguments[i], "--arithmetic") == 0 ? &options.arithmetic
                                                                         : NULL;
        if (value == NULL && arguments[i][0] != '-' && options.suite == NULL)
            options.suite = arguments[i];
        else if (value == NULL)
            fail("the argument '%s' is not understood", arguments[i]);
        else if (++i == count)
            fail("the option '%s' needs a value", arguments[i - 1]);
        else
            *value = arguments[i];
    }
    if (options.suite == NULL || options.vectors == NULL)
        fail("%s", USAGE);
    return options;
}

static void check_offered(const struct options *options)
{
    static const char *const profiles[] = {"golden", "published", "foreign", "edges"};
    size_t known = 0;
    if (strcmp(options->suite, "course.ngram") != 0)
        not_offered("the suite '%s' is not offered, only course.ngram is", options->suite);
    if (strcmp(options->arithmetic, "strict/1") != 0)
        not_offered("the arithmetic '%s' is not offered, only strict/1 is", options->arithmetic);
    while (known < 4 && strcmp(options->profile, profiles[known]) != 0)
        known++;
    if (known == 4)
        not_offered("the profile '%s' is not offered", options->profile);
}

/* The version that the question states, which the trace repeats. */
static const char *suite_version(struct arena *arena, const char *folder)
{
    struct bytes bytes = read_file(arena, folder, "request.json", MAXIMUM_JSON);
    struct json_problem problem;
    const struct json *request = json_parse(arena, bytes.data, bytes.length, &problem);
    if (request == NULL)
        fail("request.json: %s at byte %zu", problem.text, problem.position);
    const struct json *version = json_member(request, "suite_version");
    if (!json_is(version, JSON_STRING))
        fail("request.json: 'suite_version' is not a string");
    return version->string.data;
}

/* Train twice from scratch, so that the trace can say whether the bits come again. */
static void trace_experiment(struct arena *arena, struct trace *trace, const char *folder)
{
    struct bytes corpus = read_file(arena, folder, "corpus.txt", MAXIMUM_CORPUS);
    struct bytes splits = read_file(arena, folder, "splits.json", MAXIMUM_CORPUS);
    struct prepared data = prepare(arena, corpus, splits), again = prepare(arena, corpus, splits);
    struct outcome outcome = train_once(arena, &data), replay = train_once(arena, &again);
    write_experiment(trace, &data, &outcome, same_bits(&outcome, &replay));
}

static void trace_suite(const struct options *options)
{
    struct arena arena = {NULL};
    struct trace trace = {{NULL, 0, 0}, 0};
    char digest[SHA256_TEXT];
    struct bytes vectors = read_file(&arena, options->vectors, "vectors.json", MAXIMUM_JSON);
    sha256_of(vectors.data, vectors.length, digest);
    struct envelope envelope = {options->suite, suite_version(&arena, options->vectors), options->profile,
                                options->arithmetic, digest};
    trace_start(&trace, &envelope);
    if (strcmp(options->profile, "edges") == 0) {
        write_conventions(&trace);
        answer_cases(&arena, &trace, vectors, options->vectors);
    } else {
        trace_experiment(&arena, &trace, options->vectors);
    }
    if (!trace_finish(&trace))
        fail("the trace cannot be written");
    buffer_free(&trace.text);
    arena_free(&arena);
}

int main(int count, char **arguments)
{
    if (count == 2 && strcmp(arguments[1], "serve") == 0) {
        serve();
        return 0;
    }
    if (count < 2 || strcmp(arguments[1], "trace") != 0)
        fail("%s", USAGE);
    struct options options = read_options(count - 2, arguments + 2);
    check_offered(&options);
    trace_suite(&options);
    return 0;
}
