/* The mean negative log-likelihood of targets under softmax, in nats, and its gradient.

   A row of logits z with the maximum m: the first maximum is skipped, and the tail is the sum of exp(z[k] - m) over all
   other classes, ascending. The skipped term is exactly 1, so the denominator is 1 + tail and its logarithm is
   log1p(tail), which stays accurate where one class dominates. */

#ifndef LOSS_H
#define LOSS_H

#include <stddef.h>
#include <stdint.h>

/* The place of the first maximum. */
size_t first_maximum(const double *row, size_t classes);

/* The sum of exp(row[k] - row[winner]) over k other than `winner`, ascending. */
double softmax_tail(const double *row, size_t classes, size_t winner);

/* The mean over the rows; every logit has to be finite. */
double mean_nll(const double *logits, size_t rows, size_t classes, const uint32_t *targets);

/* (softmax(z) - onehot(target)) / rows for each row. */
void mean_nll_gradient(const double *logits, size_t rows, size_t classes, const uint32_t *targets, double *gradient);

#endif
