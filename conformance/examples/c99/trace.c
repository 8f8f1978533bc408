#include "trace.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bits.h"
#include "sha256.h"
#include "utf8.h"

/* ---- records ---- */

void open_record(struct trace *trace, const char *kind)
{
    buffer_text(&trace->text, kind);
    trace->records++;
}

void close_record(struct trace *trace) { buffer_text(&trace->text, "\n"); }

void trace_start(struct trace *trace, const struct envelope *envelope)
{
    open_record(trace, "TRACE");
    field_word(trace, "grammar", "1");
    field_word(trace, "suite", envelope->suite);
    field_text(trace, "suite_version", envelope->suite_version, strlen(envelope->suite_version));
    field_word(trace, "profile", envelope->profile);
    field_word(trace, "arithmetic", envelope->arithmetic);
    field_word(trace, "vectors", envelope->vectors);
    close_record(trace);
    trace->records = 0; /* TRACE itself is not counted */
}

int trace_finish(struct trace *trace)
{
    char digest[SHA256_TEXT];
    size_t records = trace->records;
    sha256_of(trace->text.data, trace->text.length, digest); /* of every byte before this line */
    open_record(trace, "END");
    field_integer(trace, "records", records);
    field_word(trace, "digest", digest);
    close_record(trace);
    return fwrite(trace->text.data, 1, trace->text.length, stdout) == trace->text.length && fflush(stdout) == 0;
}

/* ---- fields ---- */

static void open_field(struct trace *trace, const char *name)
{
    buffer_text(&trace->text, "|");
    buffer_text(&trace->text, name);
    buffer_text(&trace->text, "=");
}

static int is_control(uint32_t character) { return character < 0x20 || (character >= 0x7f && character <= 0x9f); }

void field_text(struct trace *trace, const char *name, const char *text, size_t length)
{
    open_field(trace, name);
    for (size_t place = 0; place < length;) {
        uint32_t character = (unsigned char)text[place];
        size_t bytes = utf8_decode(text + place, length - place, &character);
        bytes = bytes == 0 ? 1 : bytes;
        int at_an_end = place == 0 || place + bytes == length;
        if (character == '\\' || character == '|')
            buffer_format(&trace->text, "\\%c", (int)character);
        else if (character == '\n')
            buffer_text(&trace->text, "\\n");
        else if (is_control(character) || (character == ' ' && at_an_end))
            buffer_format(&trace->text, "\\x%02x", (unsigned)character);
        else
            buffer_bytes(&trace->text, text + place, bytes);
        place += bytes;
    }
}

void field_word(struct trace *trace, const char *name, const char *word)
{
    open_field(trace, name);
    buffer_text(&trace->text, word);
}

static void append_integer(struct buffer *text, uint64_t value) { buffer_format(text, "%" PRIu64, value); }

void field_integer(struct trace *trace, const char *name, uint64_t value)
{
    open_field(trace, name);
    append_integer(&trace->text, value);
}

static void append_real(struct buffer *text, double value, int decimals)
{
    if (value != value)
        buffer_text(text, "nan"); /* whatever its sign is */
    else if (isinf(value))
        buffer_text(text, value < 0.0 ? "-inf" : "inf");
    else
        buffer_format(text, "%.*f", decimals, value);
}

static void append_bits(struct buffer *text, double value) { buffer_format(text, "%016" PRIx64, bits_of(value)); }

void field_real(struct trace *trace, const char *name, double value, int decimals)
{
    open_field(trace, name);
    append_real(&trace->text, value, decimals);
}

void field_bits(struct trace *trace, const char *name, double value)
{
    open_field(trace, name);
    append_bits(&trace->text, value);
}

/* What stands in front of item `i` of a list. */
static void separate(struct buffer *text, size_t i) { buffer_text(text, i == 0 ? "" : ", "); }

void field_integers(struct trace *trace, const char *name, const uint64_t *values, size_t count)
{
    open_field(trace, name);
    buffer_text(&trace->text, "[");
    for (size_t i = 0; i < count; i++) {
        separate(&trace->text, i);
        append_integer(&trace->text, values[i]);
    }
    buffer_text(&trace->text, "]");
}

void field_reals(struct trace *trace, const char *name, const double *values, size_t count)
{
    open_field(trace, name);
    buffer_text(&trace->text, "[");
    for (size_t i = 0; i < count; i++) {
        separate(&trace->text, i);
        append_real(&trace->text, values[i], 6);
    }
    buffer_text(&trace->text, "]");
}

void field_bits_list(struct trace *trace, const char *name, const double *values, size_t count)
{
    open_field(trace, name);
    buffer_text(&trace->text, "[");
    for (size_t i = 0; i < count; i++) {
        separate(&trace->text, i);
        append_bits(&trace->text, values[i]);
    }
    buffer_text(&trace->text, "]");
}
