#include "llama_sizes.h"

#include <stdint.h>

#include "failure.h"
#include "json.h"

enum { MAXIMUM_LENGTH = 1 << 20, MAXIMUM_LAYERS = 1 << 10 };

/* A positive integer; `other` where the key is absent or null, if `other` is not 0. */
static size_t take_size(const struct json *config, const char *key, size_t limit, size_t other)
{
    const struct json *value = json_member(config, key);
    uint64_t size;
    if ((value == NULL || json_is(value, JSON_NULL)) && other != 0)
        return other;
    if (!json_unsigned(value, limit, &size) || size == 0)
        fail("config.json: '%s' is not an integer from 1 to %zu", key, limit);
    return (size_t)size;
}

static int is_number(const struct json *value) { return json_is(value, JSON_INTEGER) || json_is(value, JSON_REAL); }

static int is_absent(const struct json *value) { return value == NULL || json_is(value, JSON_NULL); }

static double take_real(const struct json *config, const char *key)
{
    const struct json *value = json_member(config, key);
    if (!is_number(value) || !(value->real >= 0.0))
        fail("config.json: '%s' is not a number from 0 on", key);
    return value->real;
}

/* What would change the function without changing a shape must be what this program computes. */
static void check_kind(const struct json *config)
{
    static const char *const flags[] = {"attention_bias", "mlp_bias"};
    const struct json *type = json_member(config, "model_type"), *act = json_member(config, "hidden_act");
    if (!json_is(type, JSON_STRING) || (!json_text_is(type->string, "llama") && !json_text_is(type->string, "mistral")))
        not_offered("the folder holds no model of the type llama or mistral");
    if (!json_is(act, JSON_STRING) || !json_text_is(act->string, "silu"))
        not_offered("the model has another activation than silu");
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        const struct json *flag = json_member(config, flags[i]);
        if (!is_absent(flag) && !json_is(flag, JSON_FALSE))
            not_offered("the model has biases");
    }
}

/* The base stands in `rope_parameters`, in `rope_theta`, or in both. */
static double take_rope_base(const struct json *config)
{
    const struct json *inner = json_member(config, "rope_parameters"), *outer = json_member(config, "rope_theta");
    const struct json *type = json_member(inner, "rope_type");
    if (!is_absent(json_member(config, "rope_scaling")) ||
        (type != NULL && !(json_is(type, JSON_STRING) && json_text_is(type->string, "default"))))
        not_offered("the model scales its rotary frequencies");
    double base = take_real(json_member(inner, "rope_theta") == NULL ? config : inner, "rope_theta");
    if (is_number(outer) && outer->real != base)
        fail("config.json: 'rope_theta' says two things");
    if (!(base > 0.0))
        fail("config.json: 'rope_theta' is not positive");
    return base;
}

struct llama_sizes read_llama_sizes(struct arena *arena, struct bytes bytes)
{
    struct json_problem problem;
    const struct json *config = json_parse(arena, bytes.data, bytes.length, &problem);
    if (config == NULL)
        fail("config.json: %s at byte %zu", problem.text, problem.position);
    check_kind(config);
    struct llama_sizes sizes = {
        .vocabulary = take_size(config, "vocab_size", MAXIMUM_LENGTH, 0),
        .context = take_size(config, "max_position_embeddings", MAXIMUM_LENGTH, 0),
        .width = take_size(config, "hidden_size", MAXIMUM_LENGTH, 0),
        .feed_forward = take_size(config, "intermediate_size", MAXIMUM_LENGTH, 0),
        .layers = take_size(config, "num_hidden_layers", MAXIMUM_LAYERS, 0),
        .heads = take_size(config, "num_attention_heads", MAXIMUM_LENGTH, 0),
        .tied = json_is(json_member(config, "tie_word_embeddings"), JSON_TRUE),
        .rope_base = take_rope_base(config),
        .epsilon = take_real(config, "rms_norm_eps"),
    };
    sizes.groups = take_size(config, "num_key_value_heads", sizes.heads, sizes.heads);
    if (is_absent(json_member(config, "head_dim")) && sizes.width % sizes.heads != 0)
        fail("config.json: the width %zu is not divided by %zu heads", sizes.width, sizes.heads);
    sizes.head_width = take_size(config, "head_dim", MAXIMUM_LENGTH, sizes.width / sizes.heads);
    if (!is_absent(json_member(config, "sliding_window")))
        sizes.window = take_size(config, "sliding_window", MAXIMUM_LENGTH, 0);
    if (sizes.heads % sizes.groups != 0 || sizes.head_width % 2 != 0)
        fail("config.json: %zu heads of width %zu cannot be turned, or share %zu heads of keys and values", sizes.heads,
             sizes.head_width, sizes.groups);
    return sizes;
}
