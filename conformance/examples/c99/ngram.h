/* The neural n-gram: the next token from a fixed number of previous ones (Bengio and others, 2003).

       x = [E[c0] ... E[cC-1]]                     [rows, C D]
       h = (SiLU(x Wgate) (x Wup)) Wdown           [rows, H]
       z = h Wout                                  [rows, V]

   The five matrices lie one behind the other, row-major, in the order of the registry below; gradients and moments of
   the optimiser have the same layout. */

#ifndef NGRAM_H
#define NGRAM_H

#include <stddef.h>
#include <stdint.h>

#include "arena.h"
#include "matrix.h"
#include "splitmix64.h"

enum { EMBEDDING, GATE, UP, DOWN, OUTPUT, MATRICES };

extern const char *const NGRAM_NAMES[MATRICES];

struct ngram_sizes {
    size_t vocabulary, context, embedding, hidden; /* V, C, D, H */
};

struct ngram {
    struct ngram_sizes sizes;
    double *parameters;
};

/* What a forward pass computes for a batch; the backward pass reads it. */
struct stages {
    size_t rows;
    const uint32_t *contexts;
    double *concatenated;          /* x, [rows, C D]; the embeddings [rows, C, D] are the same numbers */
    double *gate, *sigmoid, *silu; /* g = x Wgate, s = sigmoid(g), a = g s, each [rows, H] */
    double *up, *product;          /* u = x Wup, p = a u, each [rows, H] */
    double *hidden;                /* h = p Wdown, [rows, H] */
    double *logits;                /* z = h Wout, [rows, V] */
};

/* The shape [rows, columns] of matrix `which`. */
size_t ngram_rows(const struct ngram_sizes *sizes, int which);
size_t ngram_columns(const struct ngram_sizes *sizes, int which);

/* Where matrix `which` starts; of MATRICES, the number of all parameters. */
size_t ngram_offset(const struct ngram_sizes *sizes, int which);

/* A matrix of the model, or of its gradients. */
struct matrix ngram_matrix(const struct ngram_sizes *sizes, const double *parameters, int which);

/* Draw row-major from U(-limit, limit), limit = sqrt(6 / (rows + columns)) (Glorot and Bengio, 2010). */
void draw_xavier(double *values, size_t rows, size_t columns, struct splitmix64 *generator);

/* A new model, drawn matrix by matrix from one stream. */
struct ngram ngram_drawn(struct arena *arena, struct ngram_sizes sizes, struct splitmix64 *generator);

/* Room for a batch of up to `rows` contexts. */
struct stages ngram_stages(struct arena *arena, const struct ngram_sizes *sizes, size_t rows);

/* Run the model on `rows` contexts of C ids each, oldest first. An id beyond the vocabulary or a logit that is not
   finite ends the program. */
void ngram_forward(const struct ngram *model, const uint32_t *contexts, size_t rows, struct stages *stages);

/* Set `gradient` to that of the mean negative log-likelihood of the targets, after a forward pass. */
void ngram_backward(struct arena *arena, const struct ngram *model, const struct stages *stages,
                    const uint32_t *targets, double *gradient);

#endif
