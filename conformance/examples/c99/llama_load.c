/* From a model folder to a model: every tensor by the name and in the shape that other engines expect. */

#include <stdio.h>

#include "failure.h"
#include "llama.h"
#include "safetensors.h"

enum { MAXIMUM_CONFIG = 1 << 20, MAXIMUM_MODEL = 1 << 30 };

/* Take a matrix [rows, columns], or a vector of `rows` numbers where `columns` is 0. */
static const double *take(struct arena *arena, const struct safetensors *file, struct llama *model, const char *name,
                          size_t rows, size_t columns)
{
    struct tensor tensor = safetensors_read(arena, file, name);
    size_t axes = columns == 0 ? 1 : 2;
    if (tensor.axes != axes || tensor.shape[0] != rows || (axes == 2 && tensor.shape[1] != columns))
        fail("the tensor '%s' does not have the shape that config.json asks for", name);
    model->parameters += tensor.count;
    return tensor.values;
}

static void take_layer(struct arena *arena, const struct safetensors *file, struct llama *model, size_t index)
{
    const struct llama_sizes *s = &model->sizes;
    struct llama_layer *layer = &model->layers[index];
    size_t queries = s->heads * s->head_width, keys = s->groups * s->head_width;
    const struct {
        const char *name;
        const double **place;
        size_t rows, columns;
    } tensors[] = {
        {"input_layernorm", &layer->attention_norm, s->width, 0},
        {"self_attn.q_proj", &layer->query, queries, s->width},
        {"self_attn.k_proj", &layer->key, keys, s->width},
        {"self_attn.v_proj", &layer->value, keys, s->width},
        {"self_attn.o_proj", &layer->output, s->width, queries},
        {"post_attention_layernorm", &layer->feed_forward_norm, s->width, 0},
        {"mlp.gate_proj", &layer->gate, s->feed_forward, s->width},
        {"mlp.up_proj", &layer->up, s->feed_forward, s->width},
        {"mlp.down_proj", &layer->down, s->width, s->feed_forward},
    };
    for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++) {
        char name[80];
        snprintf(name, sizeof name, "model.layers.%zu.%s.weight", index, tensors[i].name);
        *tensors[i].place = take(arena, file, model, name, tensors[i].rows, tensors[i].columns);
    }
}

struct llama llama_load(struct arena *arena, const char *folder)
{
    struct llama model = {.sizes = read_llama_sizes(arena, read_file(arena, folder, "config.json", MAXIMUM_CONFIG))};
    struct bytes bytes = read_file(arena, folder, "model.safetensors", MAXIMUM_MODEL);
    struct safetensors file = safetensors_open(arena, bytes);
    size_t vocabulary = model.sizes.vocabulary, width = model.sizes.width;
    model.embedding = take(arena, &file, &model, "model.embed_tokens.weight", vocabulary, width);
    model.layers = NEW_ARRAY(arena, struct llama_layer, model.sizes.layers);
    for (size_t i = 0; i < model.sizes.layers; i++)
        take_layer(arena, &file, &model, i);
    model.final_norm = take(arena, &file, &model, "model.norm.weight", width, 0);
    model.head = model.sizes.tied ? model.embedding
                                  : take(arena, &file, &model, "lm_head.weight", vocabulary, width);
    return model;
}
