/* Sums, dot products and matrix products in the one order of strict/1. */

#ifndef MATRIX_H
#define MATRIX_H

#include <stddef.h>

/* A view of numbers as a matrix; the transposed view is the same numbers with the strides exchanged. */
struct matrix {
    const double *values;
    size_t rows, columns;
    size_t row_stride, column_stride;
};

struct matrix row_major(const double *values, size_t rows, size_t columns);
struct matrix transposed(struct matrix matrix);

/* c = a b, row-major [a.rows, b.columns]: each element is +0.0 plus the rounded products, inner index ascending. */
void multiply(struct matrix a, struct matrix b, double *c);

/* The sum of a[i] b[i] from +0.0, i ascending, each product rounded. */
double ascending_dot(const double *a, const double *b, size_t terms);

#endif
