/* The elementary functions of strict/1: the same bits on every machine with IEEE 754 doubles. */

#ifndef ELEMENTARY_H
#define ELEMENTARY_H

double strict_exp(double x);
double strict_log(double x);
double strict_log1p(double x);
double strict_tanh(double x);
double strict_sin(double x);
double strict_cos(double x);

/* The logistic function 1 / (1 + exp(-x)), without overflow on either side. */
double strict_sigmoid(double x);

#endif
