#include "llama.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "elementary.h"
#include "failure.h"
#include "matrix.h"
#include "softmax.h"

/* One call: the tokens, and what all layers need to know about them. */
struct pass {
    struct arena *scratch;
    const struct llama *model;
    struct cache *cache;
    const struct feed *feed;
    double *cosines, *sines; /* [tokens, head_width / 2] */
    double *scores;          /* of one query, [keys] */
};

/* ---- observing ---- */

static void show(const struct pass *pass, const char *name, const size_t *shape, size_t axes, const double *values)
{
    if (pass->feed->observer != NULL)
        pass->feed->observer->show(pass->feed->observer->who, name, shape, axes, values);
}

/* Rows [tokens, width] of a layer. */
static void show_rows(const struct pass *pass, size_t layer, const char *name, const double *rows, size_t width)
{
    char full[64];
    snprintf(full, sizeof full, "blocks.%zu.%s", layer, name);
    show(pass, full, (size_t[]){pass->feed->count, width}, 2, rows);
}

/* Rows [tokens, heads, width] as [heads, tokens, width]: head by head, as attention reads them. */
static void show_heads(const struct pass *pass, size_t layer, const char *name, const double *rows, size_t heads)
{
    size_t tokens = pass->feed->count, width = pass->model->sizes.head_width;
    if (pass->feed->observer == NULL)
        return;
    double *by_head = NEW_ARRAY(pass->scratch, double, heads * tokens * width);
    for (size_t token = 0; token < tokens; token++)
        for (size_t head = 0; head < heads; head++)
            memcpy(by_head + (head * tokens + token) * width, rows + (token * heads + head) * width,
                   width * sizeof *rows);
    char full[64];
    snprintf(full, sizeof full, "blocks.%zu.mixer.%s", layer, name);
    show(pass, full, (size_t[]){heads, tokens, width}, 3, by_head);
}

/* ---- layers that treat each token by itself ---- */

/* y = x W^T for rows x [tokens, inputs] and W [outputs, inputs]. */
static double *project(const struct pass *pass, const double *x, size_t inputs, const double *weight, size_t outputs)
{
    double *y = NEW_ARRAY(pass->scratch, double, pass->feed->count * outputs);
    multiply(row_major(x, pass->feed->count, inputs), transposed(row_major(weight, outputs, inputs)), y);
    return y;
}

/* (x * (1 / sqrt(mean + epsilon))) * gain: a product with the inverse, not a quotient, and epsilon inside the root. */
static double *normed(const struct pass *pass, const double *x, const double *gain)
{
    size_t width = pass->model->sizes.width;
    double *y = NEW_ARRAY(pass->scratch, double, pass->feed->count * width);
    for (size_t token = 0; token < pass->feed->count; token++) {
        const double *row = x + token * width;
        double shifted = ascending_dot(row, row, width) / (double)width + pass->model->sizes.epsilon;
        if (shifted == 0.0)
            not_offered("a row of zeros has no norm without an epsilon");
        double inverse = 1.0 / sqrt(shifted);
        for (size_t i = 0; i < width; i++)
            y[token * width + i] = (row[i] * inverse) * gain[i];
    }
    return y;
}

/* (SiLU(x gate) (x up)) down */
static double *fed_forward(const struct pass *pass, size_t layer, const double *x)
{
    const struct llama_layer *w = &pass->model->layers[layer];
    size_t width = pass->model->sizes.width, inner = pass->model->sizes.feed_forward;
    double *gate = project(pass, x, width, w->gate, inner), *up = project(pass, x, width, w->up, inner);
    for (size_t i = 0; i < pass->feed->count * inner; i++)
        gate[i] = (gate[i] * strict_sigmoid(gate[i])) * up[i];
    show_rows(pass, layer, "feed_forward.gated", gate, inner);
    return project(pass, gate, inner, w->down, width);
}

static double *sum_of(const struct pass *pass, const double *a, const double *b)
{
    size_t count = pass->feed->count * pass->model->sizes.width;
    double *sum = NEW_ARRAY(pass->scratch, double, count);
    for (size_t i = 0; i < count; i++)
        sum[i] = a[i] + b[i];
    return sum;
}

/* ---- positions ---- */

/* angle = position theta_j with theta_j = exp((-2j / w) log base), rounded in this order. */
static void make_rotation(struct pass *pass)
{
    size_t half = pass->model->sizes.head_width / 2, first = pass->cache->start + pass->cache->length;
    double log_base = strict_log(pass->model->sizes.rope_base), width = (double)pass->model->sizes.head_width;
    pass->cosines = NEW_ARRAY(pass->scratch, double, pass->feed->count * half);
    pass->sines = NEW_ARRAY(pass->scratch, double, pass->feed->count * half);
    for (size_t token = 0; token < pass->feed->count; token++)
        for (size_t j = 0; j < half; j++) {
            double theta = strict_exp(((-2.0 * (double)j) / width) * log_base);
            double angle = (double)(first + token) * theta;
            pass->cosines[token * half + j] = strict_cos(angle);
            pass->sines[token * half + j] = strict_sin(angle);
        }
}

/* Turn features j and j + w/2 of every head: (l, r) becomes (l cos - r sin, l sin + r cos), zeros positive. */
static void turn(const struct pass *pass, double *rows, size_t heads)
{
    size_t half = pass->model->sizes.head_width / 2;
    for (size_t token = 0; token < pass->feed->count; token++)
        for (size_t head = 0; head < heads; head++) {
            double *row = rows + (token * heads + head) * 2 * half;
            for (size_t j = 0; j < half; j++) {
                double left = row[j], right = row[j + half];
                double cosine = pass->cosines[token * half + j], sine = pass->sines[token * half + j];
                row[j] = left * cosine - right * sine + 0.0;
                row[j + half] = left * sine + right * cosine + 0.0;
            }
        }
}

/* ---- attention ---- */

/* One query against keys first ... last of one head: scores (q k) (1 / sqrt(w)), softmax, and the mixture of the
   values, all in the order of positions. */
static void attend(const struct pass *pass, size_t layer, size_t group, const double *query, size_t first, size_t last,
                   double *weights, double *mixture)
{
    const struct cache *cache = pass->cache;
    size_t width = pass->model->sizes.head_width, count = last - first + 1;
    double factor = 1.0 / sqrt((double)width); /* multiplied with, not divided by its inverse: other bits */
    const double *keys = cache->keys[layer] + first * cache->row + group * width;
    const double *values = cache->values[layer] + first * cache->row + group * width;
    for (size_t k = 0; k < count; k++)
        pass->scores[k] = ascending_dot(query, keys + k * cache->row, width) * factor;
    softmax(pass->scores, count, weights);
    struct matrix seen = {values, count, width, cache->row, 1};
    multiply(row_major(weights, 1, count), seen, mixture);
}

/* Every token and head; query head h reads the keys and values of group h div (heads / groups). */
static double *attend_all(const struct pass *pass, size_t layer, const double *query)
{
    const struct llama_sizes *s = &pass->model->sizes;
    size_t tokens = pass->feed->count, before = pass->cache->length, keys = before + tokens;
    double *mixture = NEW_ARRAY(pass->scratch, double, tokens * s->heads * s->head_width);
    int observed = pass->feed->observer != NULL;
    double *weights = NEW_ARRAY(pass->scratch, double, observed ? s->heads * tokens * keys : keys);
    for (size_t token = 0; token < tokens; token++) {
        size_t last = before + token, first = s->window != 0 && last + 1 > s->window ? last + 1 - s->window : 0;
        for (size_t head = 0; head < s->heads; head++) {
            size_t place = token * s->heads + head;
            double *row = observed ? weights + (head * tokens + token) * keys + first : weights;
            attend(pass, layer, head / (s->heads / s->groups), query + place * s->head_width, first, last, row,
                   mixture + place * s->head_width);
        }
    }
    if (observed) {
        char full[64];
        snprintf(full, sizeof full, "blocks.%zu.mixer.weights", layer);
        show(pass, full, (size_t[]){s->heads, tokens, keys}, 3, weights); /* unseen keys weigh +0.0 */
    }
    return mixture;
}

/* Put the rows of the new tokens behind those that the sequence owns. */
static void remember(const struct pass *pass, double *rows, const double *new_rows)
{
    const struct cache *cache = pass->cache;
    memcpy(rows + cache->length * cache->row, new_rows, pass->feed->count * cache->row * sizeof *rows);
}

static double *attention(const struct pass *pass, size_t layer, const double *x)
{
    const struct llama_sizes *s = &pass->model->sizes;
    const struct llama_layer *w = &pass->model->layers[layer];
    double *query = project(pass, x, s->width, w->query, s->heads * s->head_width);
    double *key = project(pass, x, s->width, w->key, s->groups * s->head_width);
    double *value = project(pass, x, s->width, w->value, s->groups * s->head_width);
    turn(pass, query, s->heads);
    turn(pass, key, s->groups);
    show_heads(pass, layer, "query", query, s->heads);
    show_heads(pass, layer, "key", key, s->groups);
    show_heads(pass, layer, "value", value, s->groups);
    remember(pass, pass->cache->keys[layer], key);
    remember(pass, pass->cache->values[layer], value);
    double *mixture = attend_all(pass, layer, query);
    show_rows(pass, layer, "mixer.mixture", mixture, s->heads * s->head_width);
    return project(pass, mixture, s->heads * s->head_width, w->output, s->width);
}

/* ---- the whole ---- */

static double *embedded(const struct pass *pass)
{
    size_t width = pass->model->sizes.width;
    double *x = NEW_ARRAY(pass->scratch, double, pass->feed->count * width);
    for (size_t token = 0; token < pass->feed->count; token++)
        memcpy(x + token * width, pass->model->embedding + pass->feed->tokens[token] * width, width * sizeof *x);
    show(pass, "embedding", (size_t[]){pass->feed->count, width}, 2, x);
    return x;
}

static double *through_block(const struct pass *pass, size_t layer, const double *x)
{
    const struct llama_layer *w = &pass->model->layers[layer];
    size_t width = pass->model->sizes.width;
    double *in_front = normed(pass, x, w->attention_norm);
    show_rows(pass, layer, "norm1", in_front, width);
    double *mixed = attention(pass, layer, in_front);
    show_rows(pass, layer, "mixed", mixed, width);
    double *residual = sum_of(pass, mixed, x);
    show_rows(pass, layer, "residual", residual, width);
    double *output = sum_of(pass, fed_forward(pass, layer, normed(pass, residual, w->feed_forward_norm)), residual);
    show_rows(pass, layer, "output", output, width);
    return output;
}

static void check_failure(const struct pass *pass, size_t blocks)
{
    if (pass->feed->fail_after == blocks)
        not_offered("the call is refused behind %zu blocks, as it was asked to be", blocks);
}

/* Where nobody looks, only the wanted rows meet the vocabulary. */
static void write_logits(const struct pass *pass, const double *x, double *logits)
{
    const struct llama_sizes *s = &pass->model->sizes;
    double *rows = normed(pass, x, pass->model->final_norm);
    struct matrix head = transposed(row_major(pass->model->head, s->vocabulary, s->width));
    for (size_t i = 0; i < pass->feed->wanted_count; i++)
        multiply(row_major(rows + pass->feed->wanted[i] * s->width, 1, s->width), head, logits + i * s->vocabulary);
    if (pass->feed->observer == NULL)
        return;
    show(pass, "final_norm", (size_t[]){pass->feed->count, s->width}, 2, rows);
    double *all = NEW_ARRAY(pass->scratch, double, pass->feed->count * s->vocabulary);
    multiply(row_major(rows, pass->feed->count, s->width), head, all);
    show(pass, "logits.0", (size_t[]){pass->feed->count, s->vocabulary}, 2, all);
}

void llama_feed(struct arena *scratch, const struct llama *model, struct cache *cache, const struct feed *feed,
                double filler, double *logits)
{
    struct pass pass = {scratch, model, cache, feed, NULL, NULL, NULL};
    cache_reserve(cache, cache->length + feed->count, filler);
    pass.scores = NEW_ARRAY(scratch, double, cache->length + feed->count);
    make_rotation(&pass);
    double *x = embedded(&pass);
    for (size_t layer = 0; layer < model->sizes.layers; layer++) {
        check_failure(&pass, layer);
        x = through_block(&pass, layer, x);
    }
    check_failure(&pass, model->sizes.layers);
    write_logits(&pass, x, logits);
}
