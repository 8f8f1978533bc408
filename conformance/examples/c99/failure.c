#include "failure.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static struct trap *catcher;
static const char *context;

/* What is quoted may be foreign: the sentence stays one line, and cannot steer a terminal. */
static void make_harmless(char *text)
{
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
}

NEVER_RETURNS static void end(int code, const char *format, va_list arguments)
{
    struct trap without;
    struct trap *trap = catcher == NULL ? &without : catcher;
    int length = context == NULL ? 0 : snprintf(trap->text, sizeof trap->text, "%.200s: ", context);
    vsnprintf(trap->text + length, sizeof trap->text - (size_t)length, format, arguments);
    make_harmless(trap->text);
    trap->code = code;
    if (catcher != NULL)
        longjmp(trap->place, 1);
    fprintf(stderr, "cai-c99: %s\n", trap->text);
    exit(code);
}

void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    end(EXIT_WRONG, format, arguments);
}

void not_offered(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    end(EXIT_NOT_OFFERED, format, arguments);
}

void set_trap(struct trap *trap) { catcher = trap; }

void set_failure_context(const char *what) { context = what; }
