/* The elementary functions of strict/1, after the page "Arithmetic with defined bits" (reference/docs/arithmetic.md).

   Every operation below rounds once, and the order of operations is the definition: (a + b) + c and a + (b + c) are
   different functions. Compile with -ffp-contract=off, so that no product is fused with a sum. */

#include "elementary.h"

#include <float.h>
#include <stdint.h>

#include "bits.h"

#if FLT_EVAL_METHOD != 0
#error "doubles have to be computed as doubles: on 32-bit x86, compile with -msse2 -mfpmath=sse"
#endif
#ifdef __FAST_MATH__
#error "-ffast-math changes the order of operations, which is the definition"
#endif

static const double SHIFT = 0x1.8p52; /* adding and subtracting it rounds to an integer */
static const int64_t SHIFT_BITS = 0x4338000000000000;
static const double LN2_HIGH = 0x1.62e42fee00000p-1; /* the first 32 bits of ln 2, so that k LN2_HIGH is exact */
static const double LN2_LOW = 0x1.a39ef35793c76p-33;
static const double INVERSE_LN2 = 0x1.71547652b82fep+0;
static const double SQRT_HALF = 0x1.6a09e667f3bcdp-1;
static const double SPLITTER = 0x1.0000002p+27; /* 2^27 + 1 (Dekker) */

/* pi/2 in four parts; a multiple of each of the first three is exact. */
static const double HALF_PI_1 = 0x1.921fb54400000p+0;
static const double HALF_PI_2 = 0x1.0b4611a600000p-34;
static const double HALF_PI_3 = 0x1.3198a2e000000p-69;
static const double HALF_PI_4 = 0x1.b839a252049c1p-104;
static const double INVERSE_HALF_PI = 0x1.45f306dc9c883p-1;

/* 1/2!, 1/3!, ... 1/14! */
static const double EXP[] = {
    0x1.0000000000000p-1,  0x1.5555555555555p-3,  0x1.5555555555555p-5,  0x1.1111111111111p-7,
    0x1.6c16c16c16c17p-10, 0x1.a01a01a01a01ap-13, 0x1.a01a01a01a01ap-16, 0x1.71de3a556c734p-19,
    0x1.27e4fb7789f5cp-22, 0x1.ae64567f544e4p-26, 0x1.1eed8eff8d898p-29, 0x1.6124613a86d09p-33,
    0x1.93974a8c07c9dp-37};

/* 2/3, 2/5, ... 2/21 */
static const double LOG[] = {
    0x1.5555555555555p-1, 0x1.999999999999ap-2, 0x1.2492492492492p-2, 0x1.c71c71c71c71cp-3, 0x1.745d1745d1746p-3,
    0x1.3b13b13b13b14p-3, 0x1.1111111111111p-3, 0x1.e1e1e1e1e1e1ep-4, 0x1.af286bca1af28p-4, 0x1.8618618618618p-4};

/* -1/3!, 1/5!, ... 1/17! */
static const double SIN[] = {
    -0x1.5555555555555p-3,  0x1.1111111111111p-7,  -0x1.a01a01a01a01ap-13, 0x1.71de3a556c734p-19,
    -0x1.ae64567f544e4p-26, 0x1.6124613a86d09p-33, -0x1.ae7f3e733b81fp-41, 0x1.952c77030ad4ap-49};

/* 1/4!, -1/6!, ... -1/18! */
static const double COS[] = {
    0x1.5555555555555p-5,  -0x1.6c16c16c16c17p-10, 0x1.a01a01a01a01ap-16, -0x1.27e4fb7789f5cp-22,
    0x1.1eed8eff8d898p-29, -0x1.93974a8c07c9dp-37, 0x1.ae7f3e733b81fp-45, -0x1.6827863b97d97p-53};

#define POLYNOMIAL(x, table) horner((x), (table), (int)(sizeof(table) / sizeof((table)[0])))

/* ((c[last] x + c[last-1]) x + ...) x + c[0]: Horner's rule, from the last coefficient. */
static double horner(double x, const double *coefficients, int length)
{
    double total = coefficients[length - 1];
    for (int i = length - 2; i >= 0; i--)
        total = total * x + coefficients[i];
    return total;
}

static double infinity(void) { return double_of(0x7ff0000000000000); }
static double not_a_number(void) { return double_of(0x7ff8000000000000); }
static int is_negative(double x) { return (int)(bits_of(x) >> 63); }
static double magnitude(double x) { return double_of(bits_of(x) & 0x7fffffffffffffff); }

/* 2^n, exact, for normal results. */
static double power_of_two(int n) { return double_of((uint64_t)(n + 1023) << 52); }

/* Return k and set r and t so that exp(x) = 2^k (1 + r + t), with |r| at most about ln(2) / 2. */
static int reduced_exp(double x, double *r, double *t)
{
    double shifted = x * INVERSE_LN2 + SHIFT;
    double k = shifted - SHIFT;
    double high = x - k * LN2_HIGH; /* exact */
    double low = k * LN2_LOW;
    *r = high - low;
    double lost = (high - *r) - low; /* what the subtraction rounded away */
    *t = *r * *r * POLYNOMIAL(*r, EXP) + lost;
    return (int)((int64_t)bits_of(shifted) - SHIFT_BITS);
}

double strict_exp(double x)
{
    if (x != x)
        return not_a_number();
    if (x < -746.0)
        return 0.0;
    if (x > 710.0)
        return infinity();
    double r, t;
    int k = reduced_exp(x, &r, &t);
    double head = 1.0 + r;
    double tail = r - (head - 1.0); /* exact */
    double y = head + (tail + t);
    int half = k / 2; /* two factors, because 2^k itself may be out of range; only the second product can round */
    return y * power_of_two(half) * power_of_two(k - half);
}

/* Split a normal x > 0 into 2^k m with SQRT_HALF <= m < 2 SQRT_HALF, exactly. */
static int split(double x, double *m)
{
    int k = (int)(bits_of(x) >> 52) - 1023;
    double value = double_of((bits_of(x) & 0x000fffffffffffff) | 0x3ff0000000000000);
    if (value >= 2.0 * SQRT_HALF) {
        value *= 0.5;
        k += 1;
    }
    *m = value;
    return k;
}

/* k ln 2 + log(1 + f) + lost, with s = f / (2 + f) and log(1 + f) = 2 (s + s^3/3 + s^5/5 + ...). */
static double log_sum(int exponent, double f, double lost)
{
    double k = exponent;
    double s = f / (2.0 + f);
    double z = s * s;
    double half_square = 0.5 * f * f;
    double rest = s * (half_square + z * POLYNOMIAL(z, LOG)) - half_square;
    double high = k * LN2_HIGH; /* exact */
    double head = high + f;
    double tail = f - (head - high); /* exact */
    return head + (tail + (rest + (k * LN2_LOW + lost)));
}

double strict_log(double x)
{
    if (x != x || x < 0.0)
        return not_a_number();
    if (x == 0.0)
        return -infinity();
    if (x == infinity())
        return x;
    int below = 0;
    if (x < 0x1p-1022) { /* subnormal */
        x *= 0x1p54;
        below = 54;
    }
    double m;
    int k = split(x, &m);
    return log_sum(k - below, m - 1.0, 0.0);
}

double strict_log1p(double x)
{
    if (x != x || x < -1.0)
        return not_a_number();
    if (x == -1.0)
        return -infinity();
    if (x == 0.0 || x == infinity())
        return x;
    double u = 1.0 + x, m;
    int k = split(u, &m);
    if (k == 0)
        return log_sum(0, x, 0.0); /* x itself, not the rounded 1 + x */
    double lost = x >= 1.0 ? 1.0 - (u - x) : x - (u - 1.0);
    return log_sum(k, m - 1.0, lost / u);
}

/* The upper 26 bits of x. */
static double upper_half(double x)
{
    double product = SPLITTER * x;
    return product - (product - x);
}

/* (exp(2a) - 1) / (exp(2a) + 1), numerator and denominator each as a sum of two doubles. */
double strict_tanh(double x)
{
    if (x != x)
        return not_a_number();
    double a = magnitude(x);
    if (a > 22.0)
        a = 22.0;
    double r, t;
    double power = power_of_two(reduced_exp(a + a, &r, &t));
    double whole = power - 1.0;
    double power_r = power * r;
    double power_t = power * t;
    double first = whole + power_r;
    double first_low = power_r - (first - whole);
    double e = first + power_t;
    double e_low = first_low + (power_t - (e - first)); /* exp(2a) - 1 = e + e_low */
    double d = e + 2.0;
    double two = d - e;
    double d_low = ((e - (d - two)) + (2.0 - two)) + e_low; /* exp(2a) + 1 = d + d_low */
    double q = upper_half(e / d);
    double d_upper = upper_half(d);
    double d_lower = d - d_upper;
    double remainder = (e - q * d_upper) - q * d_lower; /* exact */
    double value = q + (remainder + (e_low - q * d_low)) / d;
    return is_negative(x) ? -value : value;
}

/* a - b, and what the subtraction rounded away (Knuth's two-sum). */
static double exact_difference(double a, double b, double *error)
{
    double difference = a - b;
    double minus_b = difference - a;
    *error = (a - (difference - minus_b)) - (b + minus_b);
    return difference;
}

/* The sine of a + turn pi/2, for 0 <= a <= 10^6: turn 0 is the sine, turn 1 the cosine.

   a = n pi/2 + r + r_low; which of the two series applies, and its sign, is decided by (n + turn) mod 4. */
static double sine_after(double a, int turn)
{
    double shifted = a * INVERSE_HALF_PI + SHIFT;
    double k = shifted - SHIFT;
    int64_t quarter = (int64_t)bits_of(shifted) - SHIFT_BITS + turn;
    double second_error, third_error;
    double first = a - k * HALF_PI_1; /* exact */
    double second = exact_difference(first, k * HALF_PI_2, &second_error);
    double third = exact_difference(second, k * HALF_PI_3, &third_error);
    double error = second_error + (third_error - k * HALF_PI_4);
    double r = third + error;
    double r_low = error - (r - third);
    double z = r * r;
    double half_square = 0.5 * z;
    double head = 1.0 - half_square;
    double value;
    if (quarter & 1) {
        double tail = (1.0 - head) - half_square;
        value = head + (tail + (z * z * POLYNOMIAL(z, COS) - r * r_low));
    } else {
        value = r + (r * (z * POLYNOMIAL(z, SIN)) + head * r_low);
    }
    return quarter & 2 ? -value : value;
}

double strict_sin(double x)
{
    double a = magnitude(x);
    if (!(a <= 1.0e6))
        return not_a_number();
    double value = sine_after(a, 0);
    return is_negative(x) ? -value : value;
}

double strict_cos(double x)
{
    double a = magnitude(x);
    if (!(a <= 1.0e6))
        return not_a_number();
    return sine_after(a, 1);
}

double strict_sigmoid(double x)
{
    if (x >= 0.0) /* -0.0, too */
        return 1.0 / (1.0 + strict_exp(-x));
    double e = strict_exp(x);
    return e / (1.0 + e);
}
