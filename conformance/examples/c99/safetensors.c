#include "safetensors.h"

#include <string.h>

#include "failure.h"

static const uint64_t LARGEST = UINT64_C(1) << 40; /* sizes below it multiply without overflow checks of their own */

static uint64_t little_endian(const char *bytes, int count)
{
    uint64_t value = 0;
    for (int i = count; i-- > 0;)
        value = value << 8 | (unsigned char)bytes[i];
    return value;
}

struct safetensors safetensors_open(struct arena *arena, struct bytes bytes)
{
    if (bytes.length < 8)
        fail("the weights are cut off: %zu bytes are no safetensors file", bytes.length);
    uint64_t length = little_endian(bytes.data, 8);
    if (length > bytes.length - 8)
        fail("the weights are cut off inside their header");
    char *text = NEW_ARRAY(arena, char, (size_t)length + 1);
    memcpy(text, bytes.data + 8, (size_t)length);
    struct json_problem problem;
    const struct json *header = json_parse(arena, text, (size_t)length, &problem);
    if (!json_is(header, JSON_OBJECT))
        fail("the header of the weights is not a JSON object");
    return (struct safetensors){header, bytes.data + 8 + length, bytes.length - 8 - (size_t)length};
}

/* Take the shape and return how many numbers it holds. */
static size_t take_shape(const struct json *entry, const char *name, struct tensor *tensor)
{
    const struct json *shape = json_member(entry, "shape");
    if (!json_is(shape, JSON_ARRAY) || shape->count < 1 || shape->count > MAXIMUM_AXES)
        fail("the tensor '%s' does not have one or two axes", name);
    uint64_t count = 1, length;
    for (const struct json *axis = shape->first; axis != NULL; axis = axis->next) {
        if (!json_unsigned(axis, LARGEST / count, &length) || length == 0)
            fail("the tensor '%s' has an axis of no or of too great a length", name);
        tensor->shape[tensor->axes++] = (size_t)length;
        count *= length;
    }
    return (size_t)count;
}

struct tensor safetensors_read(struct arena *arena, const struct safetensors *file, const char *name)
{
    const struct json *entry = json_member(file->header, name), *offsets = json_member(entry, "data_offsets");
    const struct json *type = json_member(entry, "dtype");
    struct tensor tensor = {NULL, 0, {0, 0}, 0};
    uint64_t start, end;
    if (entry == NULL)
        fail("the weights have no tensor '%s'", name);
    if (!json_is(type, JSON_STRING) || !json_text_is(type->string, "F32"))
        fail("the tensor '%s' is not of type F32", name);
    tensor.count = take_shape(entry, name, &tensor);
    if (!json_is(offsets, JSON_ARRAY) || offsets->count != 2 ||
        !json_unsigned(offsets->first, file->length, &start) ||
        !json_unsigned(offsets->first->next, file->length, &end) || end < start || end - start != 4 * tensor.count)
        fail("the tensor '%s' lies outside of the file, or has another size than its shape", name);
    double *values = NEW_ARRAY(arena, double, tensor.count);
    for (size_t i = 0; i < tensor.count; i++) {
        uint32_t bits = (uint32_t)little_endian(file->data + start + 4 * i, 4);
        float value;
        memcpy(&value, &bits, sizeof value);
        values[i] = value;
    }
    tensor.values = values;
    return tensor;
}
