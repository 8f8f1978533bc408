/* What happens where the program cannot go on: one sentence, and a code that says of which kind the failure is.

   The sentence goes to standard error and the program ends with the code; unless a trap is set, which then takes both.
   A server sets one around every request, so that a request can fail without the server. */

#ifndef FAILURE_H
#define FAILURE_H

#include <setjmp.h>

enum { EXIT_WRONG = 2, EXIT_NOT_OFFERED = 3 };

struct trap {
    jmp_buf place;
    int code;
    char text[1024];
};

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

/* Take failures from now on, by a jump to trap->place; none if NULL. */
void set_trap(struct trap *trap);

/* What is being looked at, for the front of the sentence; nothing if NULL. */
void set_failure_context(const char *context);

#endif
