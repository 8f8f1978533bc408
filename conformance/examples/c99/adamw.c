#include "adamw.h"

#include <math.h>

#include "failure.h"

struct adamw adamw_new(struct arena *arena, struct adamw_settings settings, size_t count)
{
    double *moments = NEW_ARRAY(arena, double, 2 * count);
    return (struct adamw){settings, count, moments, moments + count, 1.0, 1.0};
}

void adamw_step(struct adamw *optimizer, double *weights, const double *gradient)
{
    struct adamw_settings s = optimizer->settings;
    optimizer->beta1_power *= s.beta1;
    optimizer->beta2_power *= s.beta2;
    double first_correction = 1.0 - optimizer->beta1_power;
    double second_correction = 1.0 - optimizer->beta2_power;
    for (size_t i = 0; i < optimizer->count; i++) {
        double g = gradient[i], w = weights[i];
        double squared = g * g;
        double m = s.beta1 * optimizer->first[i] + (1.0 - s.beta1) * g;
        double v = s.beta2 * optimizer->second[i] + (1.0 - s.beta2) * squared;
        double direction = (m / first_correction) / (sqrt(v / second_correction) + s.epsilon);
        double update = s.rate * direction;
        double shrinkage = (s.rate * s.decay) * w;
        optimizer->first[i] = m;
        optimizer->second[i] = v;
        weights[i] = (w - update) - shrinkage;
        if (!isfinite(weights[i]))
            fail("weight %zu is not finite after an update", i);
    }
}
