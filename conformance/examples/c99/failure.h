/* How the program ends where it cannot go on: one sentence on stderr and an exit code that says what kind. */

#ifndef FAILURE_H
#define FAILURE_H

enum { EXIT_WRONG = 2, EXIT_NOT_OFFERED = 3 };

#if defined(__GNUC__)
#define LIKE_PRINTF(text, values) __attribute__((format(printf, text, values)))
#define NEVER_RETURNS __attribute__((noreturn))
#else
#define LIKE_PRINTF(text, values)
#define NEVER_RETURNS
#endif

/* Something is wrong with what was given: exit code 2. */
NEVER_RETURNS void fail(const char *format, ...) LIKE_PRINTF(1, 2);

/* The question is a good one, but this program does not answer it: exit code 3. */
NEVER_RETURNS void not_offered(const char *format, ...) LIKE_PRINTF(1, 2);

#endif
