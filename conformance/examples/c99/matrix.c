#include "matrix.h"

struct matrix row_major(const double *values, size_t rows, size_t columns)
{
    return (struct matrix){values, rows, columns, columns, 1};
}

struct matrix transposed(struct matrix matrix)
{
    return (struct matrix){matrix.values, matrix.columns, matrix.rows, matrix.column_stride, matrix.row_stride};
}

/* The order of the terms of one element is defined; the order in which elements are computed is free. No sum may be
   split, neither over threads nor over vector lanes, so the inner loop stays a chain of additions. */
void multiply(struct matrix a, struct matrix b, double *c)
{
    for (size_t row = 0; row < a.rows; row++)
        for (size_t column = 0; column < b.columns; column++) {
            const double *left = a.values + row * a.row_stride;
            const double *right = b.values + column * b.column_stride;
            double total = 0.0;
            for (size_t inner = 0; inner < a.columns; inner++)
                total += left[inner * a.column_stride] * right[inner * b.row_stride];
            c[row * b.columns + column] = total;
        }
}

double ascending_dot(const double *a, const double *b, size_t terms)
{
    double total = 0.0;
    for (size_t i = 0; i < terms; i++)
        total += a[i] * b[i];
    return total;
}
