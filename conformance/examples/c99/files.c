#include "files.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "failure.h"

static struct bytes read_stream(struct arena *arena, FILE *stream, const char *path, size_t limit)
{
    size_t capacity = 1 << 16, length = 0;
    char *data = NEW_ARRAY(arena, char, capacity + 1);
    for (;;) {
        length += fread(data + length, 1, capacity - length, stream);
        if (length < capacity || length > limit)
            break;
        char *larger = NEW_ARRAY(arena, char, 2 * capacity + 1);
        memcpy(larger, data, length);
        data = larger;
        capacity *= 2;
    }
    if (ferror(stream))
        fail("%s cannot be read: %s", path, strerror(errno));
    if (length > limit)
        fail("%s holds more than %zu bytes", path, limit);
    data[length] = '\0';
    return (struct bytes){data, length};
}

struct bytes read_file(struct arena *arena, const char *folder, const char *name, size_t limit)
{
    size_t room = strlen(folder) + strlen(name) + 2;
    char *path = NEW_ARRAY(arena, char, room);
    snprintf(path, room, "%s/%s", folder, name);
    FILE *stream = fopen(path, "rb");
    if (stream == NULL)
        fail("%s cannot be opened: %s", path, strerror(errno));
    struct bytes bytes = read_stream(arena, stream, path, limit);
    fclose(stream);
    return bytes;
}
