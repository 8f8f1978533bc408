#include "loss.h"

#include <math.h>

#include "elementary.h"

size_t first_maximum(const double *row, size_t classes)
{
    size_t winner = 0;
    for (size_t k = 1; k < classes; k++)
        if (row[k] > row[winner]) /* strictly: of equal maxima, the first; -0.0 and +0.0 are equal */
            winner = k;
    return winner;
}

double softmax_tail(const double *row, size_t classes, size_t winner)
{
    double tail = 0.0;
    for (size_t k = 0; k < classes; k++)
        if (k != winner)
            tail += strict_exp(row[k] - row[winner]);
    return tail;
}

/* Where a gap or the total overflows although each row's share of the mean does not, the shares are summed instead. */
static double mean_of_shares(const double *logits, size_t rows, size_t classes, const uint32_t *targets)
{
    double total = 0.0, count = (double)rows;
    for (size_t row = 0; row < rows; row++) {
        const double *z = logits + row * classes;
        size_t winner = first_maximum(z, classes);
        double gap = z[winner] - z[targets[row]];
        double share = isfinite(gap) ? gap / count : z[winner] / count - z[targets[row]] / count;
        total += share + strict_log1p(softmax_tail(z, classes, winner)) / count;
    }
    return total + 0.0;
}

double mean_nll(const double *logits, size_t rows, size_t classes, const uint32_t *targets)
{
    double total = 0.0;
    for (size_t row = 0; row < rows; row++) {
        const double *z = logits + row * classes;
        size_t winner = first_maximum(z, classes);
        double gap = z[winner] - z[targets[row]];
        total += gap + strict_log1p(softmax_tail(z, classes, winner));
    }
    if (!isfinite(total))
        return mean_of_shares(logits, rows, classes, targets);
    return total / (double)rows + 0.0; /* a zero is +0.0 */
}

void mean_nll_gradient(const double *logits, size_t rows, size_t classes, const uint32_t *targets, double *gradient)
{
    double scale = 1.0 / (double)rows; /* multiplied with, not divided by: other bits */
    for (size_t row = 0; row < rows; row++) {
        const double *z = logits + row * classes;
        double *dz = gradient + row * classes;
        size_t winner = first_maximum(z, classes);
        double denominator = 1.0 + softmax_tail(z, classes, winner);
        for (size_t k = 0; k < classes; k++)
            dz[k] = strict_exp(z[k] - z[winner]) / denominator;
        dz[targets[row]] -= 1.0; /* before scaling */
        for (size_t k = 0; k < classes; k++)
            dz[k] = dz[k] * scale + 0.0;
    }
}
