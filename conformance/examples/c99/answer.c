#include "answer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base64.h"
#include "bits.h"
#include "failure.h"
#include "sha256.h"
#include "utf8.h"

/* A tensor may have 64 KiB in the line; all together are kept far below the limit of a line, which is 16 MiB. */
enum { INLINE_BYTES = 64 << 10, INLINE_TOTAL = 4 << 20 };

static char *path_of(const struct answer *answer)
{
    size_t room = strlen(answer->scratch) + strlen(answer->file) + 2;
    char *path = malloc(room);
    if (path == NULL)
        fail("the memory does not suffice for the name of a file");
    snprintf(path, room, "%s/%s", answer->scratch, answer->file);
    return path;
}

void answer_begin(struct answer *answer)
{
    if (answer->file != NULL) {
        char *path = path_of(answer);
        remove(path);
        free(path);
        free(answer->file);
    }
    answer->file = NULL;
    answer->offset = 0;
    answer->inline_left = INLINE_TOTAL;
    buffer_clear(&answer->text);
}

void answer_free(struct answer *answer)
{
    answer_begin(answer);
    buffer_free(&answer->text);
    free(answer->scratch);
    answer->scratch = NULL;
}

void append_string(struct buffer *text, const char *string)
{
    size_t length = strlen(string);
    buffer_text(text, "\"");
    for (size_t place = 0; place < length;) {
        uint32_t character = '?';
        size_t bytes = utf8_decode(string + place, length - place, &character);
        if (bytes == 0)
            buffer_text(text, "?");
        else if (character < 0x20)
            buffer_format(text, "\\u%04x", (unsigned)character);
        else if (character == '"' || character == '\\')
            buffer_format(text, "\\%c", (int)character);
        else
            buffer_bytes(text, string + place, bytes);
        place += bytes == 0 ? 1 : bytes;
    }
    buffer_text(text, "\"");
}

static unsigned char *little_endian(const double *values, size_t count)
{
    unsigned char *bytes = malloc(8 * count + 1);
    if (bytes == NULL)
        fail("the memory does not suffice for a tensor of %zu numbers", count);
    for (size_t i = 0; i < 8 * count; i++)
        bytes[i] = (unsigned char)(bits_of(values[i / 8]) >> (8 * (i % 8)));
    return bytes;
}

static void name_file(struct answer *answer)
{
    enum { ROOM = 40 };
    if (answer->scratch == NULL)
        fail("a large tensor needs the folder 'scratch' that 'start' names");
    answer->file = malloc(ROOM);
    if (answer->file == NULL)
        fail("the memory does not suffice for the name of a file");
    snprintf(answer->file, ROOM, "tensors-%" PRIu64 ".bin", ++answer->files);
}

/* Append the bytes to the file of this answer and say where they stand. */
static int append_to_file(struct answer *answer, const unsigned char *bytes, size_t length)
{
    char *path = path_of(answer), digest[SHA256_TEXT];
    FILE *stream = fopen(path, "ab");
    free(path);
    if (stream == NULL)
        return 0;
    int written = fwrite(bytes, 1, length, stream) == length;
    if (fclose(stream) != 0 || !written)
        return 0;
    sha256_of(bytes, length, digest);
    buffer_format(&answer->text, "\"file\": \"%s\", \"offset\": %zu, \"sha256\": \"%s\"", answer->file, answer->offset,
                  digest + strlen("sha256:"));
    answer->offset += length;
    return 1;
}

void append_tensor(struct answer *answer, const size_t *shape, size_t axes, const double *values)
{
    size_t count = 1;
    buffer_text(&answer->text, "{\"dtype\": \"float64\", \"shape\": [");
    for (size_t i = 0; i < axes; i++) {
        buffer_format(&answer->text, "%s%zu", i == 0 ? "" : ", ", shape[i]);
        count *= shape[i];
    }
    buffer_text(&answer->text, "], ");
    size_t length = 8 * count;
    int in_line = length <= INLINE_BYTES && length <= answer->inline_left;
    if (!in_line && answer->file == NULL)
        name_file(answer);
    unsigned char *bytes = little_endian(values, count);
    int written = 1;
    if (in_line) {
        answer->inline_left -= length;
        buffer_text(&answer->text, "\"data\": \"");
        append_base64(&answer->text, bytes, length);
        buffer_text(&answer->text, "\"");
    } else {
        written = append_to_file(answer, bytes, length);
    }
    free(bytes);
    if (!written)
        fail("a tensor cannot be written to the folder 'scratch'");
    buffer_text(&answer->text, "}");
}
