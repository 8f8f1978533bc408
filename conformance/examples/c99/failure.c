#include "failure.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* What is quoted in a message may be foreign: the message stays one line, and cannot steer a terminal. */
static void print_line(const char *format, va_list arguments)
{
    char text[1024];
    vsnprintf(text, sizeof text, format, arguments);
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
    fprintf(stderr, "cai-c99: %s\n", text);
}

void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print_line(format, arguments);
    va_end(arguments);
    exit(EXIT_WRONG);
}

void not_offered(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print_line(format, arguments);
    va_end(arguments);
    exit(EXIT_NOT_OFFERED);
}
