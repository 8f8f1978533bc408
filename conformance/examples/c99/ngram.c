#include "ngram.h"

#include <math.h>
#include <string.h>

#include "elementary.h"
#include "failure.h"
#include "loss.h"

const char *const NGRAM_NAMES[MATRICES] = {
    "ngram.embedding.weight", "ngram.ffn.gate.weight", "ngram.ffn.up.weight",
    "ngram.ffn.down.weight",  "ngram.output.weight",
};

/* ---- layout ---- */

size_t ngram_rows(const struct ngram_sizes *sizes, int which)
{
    switch (which) {
    case EMBEDDING:
        return sizes->vocabulary;
    case GATE:
    case UP:
        return sizes->context * sizes->embedding;
    default:
        return sizes->hidden;
    }
}

size_t ngram_columns(const struct ngram_sizes *sizes, int which)
{
    switch (which) {
    case EMBEDDING:
        return sizes->embedding;
    case OUTPUT:
        return sizes->vocabulary;
    default:
        return sizes->hidden;
    }
}

size_t ngram_offset(const struct ngram_sizes *sizes, int which)
{
    size_t offset = 0;
    for (int i = EMBEDDING; i < which; i++)
        offset += ngram_rows(sizes, i) * ngram_columns(sizes, i);
    return offset;
}

struct matrix ngram_matrix(const struct ngram_sizes *sizes, const double *parameters, int which)
{
    const double *values = parameters + ngram_offset(sizes, which);
    return row_major(values, ngram_rows(sizes, which), ngram_columns(sizes, which));
}

/* ---- initial values ---- */

void draw_xavier(double *values, size_t rows, size_t columns, struct splitmix64 *generator)
{
    double limit = sqrt(6.0 / (double)(rows + columns));
    for (size_t i = 0; i < rows * columns; i++)
        values[i] = limit * (2.0 * splitmix64_unit(generator) - 1.0);
}

struct ngram ngram_drawn(struct arena *arena, struct ngram_sizes sizes, struct splitmix64 *generator)
{
    struct ngram model = {sizes, NEW_ARRAY(arena, double, ngram_offset(&sizes, MATRICES))};
    for (int i = EMBEDDING; i < MATRICES; i++)
        draw_xavier(model.parameters + ngram_offset(&sizes, i), ngram_rows(&sizes, i), ngram_columns(&sizes, i),
                    generator);
    return model;
}

/* ---- forward ---- */

struct stages ngram_stages(struct arena *arena, const struct ngram_sizes *sizes, size_t rows)
{
    struct stages stages = {0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL};
    double **inner[] = {&stages.gate, &stages.sigmoid, &stages.silu, &stages.up, &stages.product, &stages.hidden};
    for (size_t i = 0; i < sizeof inner / sizeof inner[0]; i++)
        *inner[i] = NEW_ARRAY(arena, double, rows * sizes->hidden);
    stages.concatenated = NEW_ARRAY(arena, double, rows * sizes->context * sizes->embedding);
    stages.logits = NEW_ARRAY(arena, double, rows * sizes->vocabulary);
    return stages;
}

/* Lay the embeddings of a context side by side, in the order of the tokens. */
static void concatenate(const struct ngram *model, struct stages *stages)
{
    const struct ngram_sizes *sizes = &model->sizes;
    for (size_t i = 0; i < stages->rows * sizes->context; i++) {
        uint32_t id = stages->contexts[i];
        if (id >= sizes->vocabulary)
            fail("the id %lu is beyond a vocabulary of %zu", (unsigned long)id, sizes->vocabulary);
        memcpy(stages->concatenated + i * sizes->embedding, model->parameters + id * sizes->embedding,
               sizes->embedding * sizeof(double));
    }
}

void ngram_forward(const struct ngram *model, const uint32_t *contexts, size_t rows, struct stages *stages)
{
    const struct ngram_sizes *sizes = &model->sizes;
    const double *w = model->parameters;
    stages->rows = rows;
    stages->contexts = contexts;
    concatenate(model, stages);
    struct matrix x = row_major(stages->concatenated, rows, sizes->context * sizes->embedding);
    multiply(x, ngram_matrix(sizes, w, GATE), stages->gate);
    multiply(x, ngram_matrix(sizes, w, UP), stages->up);
    for (size_t i = 0; i < rows * sizes->hidden; i++) {
        stages->sigmoid[i] = strict_sigmoid(stages->gate[i]);
        stages->silu[i] = stages->gate[i] * stages->sigmoid[i];
        stages->product[i] = stages->silu[i] * stages->up[i];
    }
    multiply(row_major(stages->product, rows, sizes->hidden), ngram_matrix(sizes, w, DOWN), stages->hidden);
    multiply(row_major(stages->hidden, rows, sizes->hidden), ngram_matrix(sizes, w, OUTPUT), stages->logits);
    for (size_t i = 0; i < rows * sizes->vocabulary; i++)
        if (!isfinite(stages->logits[i]))
            fail("the logit of id %zu in row %zu is not finite", i % sizes->vocabulary, i / sizes->vocabulary);
}

/* ---- backward ---- */

/* The adjoints of one batch, named after what they are the adjoints of. */
struct adjoints {
    double *logits, *hidden, *product, *up, *gate, *concatenated, *through_gate;
};

static struct adjoints new_adjoints(struct arena *arena, const struct ngram_sizes *sizes, size_t rows)
{
    size_t inputs = rows * sizes->context * sizes->embedding, inner = rows * sizes->hidden;
    return (struct adjoints){
        .logits = NEW_ARRAY(arena, double, rows * sizes->vocabulary),
        .hidden = NEW_ARRAY(arena, double, inner),
        .product = NEW_ARRAY(arena, double, inner),
        .up = NEW_ARRAY(arena, double, inner),
        .gate = NEW_ARRAY(arena, double, inner),
        .concatenated = NEW_ARRAY(arena, double, inputs),
        .through_gate = NEW_ARRAY(arena, double, inputs),
    };
}

/* Through p = SiLU(g) u. The derivative of SiLU is s (1 + g (1 - s)), in this form. */
static void through_gating(const struct stages *stages, size_t count, struct adjoints *d)
{
    for (size_t i = 0; i < count; i++) {
        double s = stages->sigmoid[i], g = stages->gate[i];
        double silu = d->product[i] * stages->up[i];
        d->up[i] = d->product[i] * stages->silu[i];
        d->gate[i] = silu * (s * (1.0 + g * (1.0 - s)));
    }
}

/* Add each row of the adjoint of x to the embedding that it came from: flat positions ascending, so that the
   contributions to a repeated id add up in that order. */
static void scatter(const struct ngram_sizes *sizes, const struct stages *stages, const double *adjoint, double *table)
{
    for (size_t i = 0; i < stages->rows * sizes->context; i++)
        for (size_t j = 0; j < sizes->embedding; j++)
            table[stages->contexts[i] * sizes->embedding + j] += adjoint[i * sizes->embedding + j];
}

void ngram_backward(struct arena *arena, const struct ngram *model, const struct stages *stages,
                    const uint32_t *targets, double *gradient)
{
    const struct ngram_sizes *sizes = &model->sizes;
    const double *w = model->parameters;
    size_t rows = stages->rows, inputs = sizes->context * sizes->embedding;
    struct adjoints d = new_adjoints(arena, sizes, rows);
    struct matrix x = row_major(stages->concatenated, rows, inputs);
    struct matrix p = row_major(stages->product, rows, sizes->hidden);
    struct matrix h = row_major(stages->hidden, rows, sizes->hidden);
    struct matrix dz = row_major(d.logits, rows, sizes->vocabulary);
    struct matrix dh = row_major(d.hidden, rows, sizes->hidden);
    struct matrix du = row_major(d.up, rows, sizes->hidden);
    struct matrix dg = row_major(d.gate, rows, sizes->hidden);

    mean_nll_gradient(stages->logits, rows, sizes->vocabulary, targets, d.logits);
    multiply(dz, transposed(ngram_matrix(sizes, w, OUTPUT)), d.hidden);
    multiply(transposed(h), dz, gradient + ngram_offset(sizes, OUTPUT));
    multiply(dh, transposed(ngram_matrix(sizes, w, DOWN)), d.product);
    multiply(transposed(p), dh, gradient + ngram_offset(sizes, DOWN));
    through_gating(stages, rows * sizes->hidden, &d);
    multiply(transposed(x), du, gradient + ngram_offset(sizes, UP));
    multiply(transposed(x), dg, gradient + ngram_offset(sizes, GATE));

    /* x feeds both branches: the contribution of `up` comes first, that of `gate` is added to it. */
    multiply(du, transposed(ngram_matrix(sizes, w, UP)), d.concatenated);
    multiply(dg, transposed(ngram_matrix(sizes, w, GATE)), d.through_gate);
    for (size_t i = 0; i < rows * inputs; i++)
        d.concatenated[i] += d.through_gate[i];
    double *table = gradient + ngram_offset(sizes, EMBEDDING);
    for (size_t i = 0; i < sizes->vocabulary * sizes->embedding; i++)
        table[i] = 0.0;
    scatter(sizes, stages, d.concatenated, table);
}
