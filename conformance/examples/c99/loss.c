#include "loss.h"

#include <math.h>

#include "elementary.h"
#include "softmax.h"

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
        softmax(z, classes, dz);
        dz[targets[row]] -= 1.0; /* before scaling */
        for (size_t k = 0; k < classes; k++)
            dz[k] = dz[k] * scale + 0.0;
    }
}
