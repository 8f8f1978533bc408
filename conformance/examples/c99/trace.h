/* Writing a trace: records of fields, one a line, with the digest of all of it at the end. */

#ifndef TRACE_H
#define TRACE_H

#include <stddef.h>
#include <stdint.h>

#include "buffer.h"

struct trace {
    struct buffer text; /* start with {{NULL, 0, 0}, 0} */
    size_t records;     /* between TRACE and END */
};

/* What the first line says. */
struct envelope {
    const char *suite, *suite_version, *profile, *arithmetic, *vectors;
};

/* The first line. */
void trace_start(struct trace *trace, const struct envelope *envelope);

/* The last line, then the whole on stdout. Return 0 where it cannot be written. */
int trace_finish(struct trace *trace);

/* A record is opened, filled field by field, and closed. */
void open_record(struct trace *trace, const char *kind);
void close_record(struct trace *trace);

/* A string: backslash, bar, line feed, other control characters and a space at either end are escaped. */
void field_text(struct trace *trace, const char *name, const char *text, size_t length);
void field_word(struct trace *trace, const char *name, const char *word);
void field_integer(struct trace *trace, const char *name, uint64_t value);
void field_integers(struct trace *trace, const char *name, const uint64_t *values, size_t count);

/* Decimals of the exact binary value, rounded half to even; what rounds to zero from below keeps its sign, as the
   n-gram suite wants it. */
void field_real(struct trace *trace, const char *name, double value, int decimals);
void field_reals(struct trace *trace, const char *name, const double *values, size_t count);

/* Sixteen hexadecimal digits, most significant first. */
void field_bits(struct trace *trace, const char *name, double value);
void field_bits_list(struct trace *trace, const char *name, const double *values, size_t count);

#endif
