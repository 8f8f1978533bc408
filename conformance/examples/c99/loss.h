/* The mean negative log-likelihood of targets under softmax, in nats, and its gradient.

   A row's loss is (m - z[target]) + log1p(tail), with the maximum m and the tail of the softmax. */

#ifndef LOSS_H
#define LOSS_H

#include <stddef.h>
#include <stdint.h>

/* The mean over the rows; every logit has to be finite. */
double mean_nll(const double *logits, size_t rows, size_t classes, const uint32_t *targets);

/* (softmax(z) - onehot(target)) / rows for each row. */
void mean_nll_gradient(const double *logits, size_t rows, size_t classes, const uint32_t *targets, double *gradient);

#endif
