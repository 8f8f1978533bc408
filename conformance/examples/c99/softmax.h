/* Softmax of a row z with the maximum m.

   The first maximum is skipped, and the tail is the sum of exp(z[k] - m) over all other k, ascending. The skipped term
   is exactly 1, so the denominator is 1 + tail and its logarithm is log1p(tail), which stays accurate where one term
   dominates. */

#ifndef SOFTMAX_H
#define SOFTMAX_H

#include <stddef.h>

/* The place of the first maximum. */
size_t first_maximum(const double *row, size_t count);

/* The sum of exp(row[k] - row[winner]) over k other than `winner`, ascending. */
double softmax_tail(const double *row, size_t count, size_t winner);

/* probabilities[k] = exp(row[k] - m) / (1 + tail) */
void softmax(const double *row, size_t count, double *probabilities);

#endif
