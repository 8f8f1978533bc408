/* AdamW: Adam with decoupled weight decay (Kingma and Ba, 2015; Loshchilov and Hutter, 2019).

   For a weight w with gradient g, at step t:

       m = beta1 m + (1 - beta1) g              v = beta2 v + (1 - beta2) (g g)
       m^ = m / (1 - beta1^t)                   v^ = v / (1 - beta2^t)
       w = (w - rate (m^ / (sqrt(v^) + epsilon))) - (rate decay) w

   The powers are running products, not pow; epsilon stands outside the root; the decay uses the weight before the
   update. Every one of these choices changes bits, and some change more than that. */

#ifndef ADAMW_H
#define ADAMW_H

#include <stddef.h>

#include "arena.h"

struct adamw_settings {
    double rate, beta1, beta2, epsilon, decay;
};

struct adamw {
    struct adamw_settings settings;
    size_t count;
    double *first, *second;            /* the moments m and v, one behind the other in memory */
    double beta1_power, beta2_power;   /* beta1^t and beta2^t */
};

struct adamw adamw_new(struct arena *arena, struct adamw_settings settings, size_t count);

/* Update all weights; a weight that is not finite afterwards ends the program. */
void adamw_step(struct adamw *optimizer, double *weights, const double *gradient);

#endif
