#include "softmax.h"

#include "elementary.h"

size_t first_maximum(const double *row, size_t count)
{
    size_t winner = 0;
    for (size_t k = 1; k < count; k++)
        if (row[k] > row[winner]) /* strictly: of equal maxima, the first; -0.0 and +0.0 are equal */
            winner = k;
    return winner;
}

double softmax_tail(const double *row, size_t count, size_t winner)
{
    double tail = 0.0;
    for (size_t k = 0; k < count; k++)
        if (k != winner)
            tail += strict_exp(row[k] - row[winner]);
    return tail;
}

void softmax(const double *row, size_t count, double *probabilities)
{
    size_t winner = first_maximum(row, count);
    double denominator = 1.0 + softmax_tail(row, count, winner);
    for (size_t k = 0; k < count; k++)
        probabilities[k] = strict_exp(row[k] - row[winner]) / denominator;
}
