/* The elementary functions of strict/1, written in C from the documentation page, to be compared bit for bit.

   One number at a time, with ordinary branches: the shape of the code differs from the Python on purpose, the operations
   on doubles do not. Compile without contraction: cc -O2 -ffp-contract=off -shared -fPIC. */

#include <stdint.h>
#include <string.h>

static const double SHIFT = 0x1.8p52;
static const int64_t SHIFT_BITS = 0x4338000000000000;
static const double LN2_HIGH = 0x1.62e42fee00000p-1, LN2_LOW = 0x1.a39ef35793c76p-33, INVERSE_LN2 = 0x1.71547652b82fep+0;
static const double HALF_PI_1 = 0x1.921fb54400000p+0, HALF_PI_2 = 0x1.0b4611a600000p-34;
static const double HALF_PI_3 = 0x1.3198a2e000000p-69, HALF_PI_4 = 0x1.b839a252049c1p-104;
static const double INVERSE_HALF_PI = 0x1.45f306dc9c883p-1;
static const double SQRT_HALF = 0x1.6a09e667f3bcdp-1;

static const double EXP[] = {
    0x1.0000000000000p-1,  0x1.5555555555555p-3,  0x1.5555555555555p-5,  0x1.1111111111111p-7,  0x1.6c16c16c16c17p-10,
    0x1.a01a01a01a01ap-13, 0x1.a01a01a01a01ap-16, 0x1.71de3a556c734p-19, 0x1.27e4fb7789f5cp-22, 0x1.ae64567f544e4p-26,
    0x1.1eed8eff8d898p-29, 0x1.6124613a86d09p-33, 0x1.93974a8c07c9dp-37};
static const double LOG[] = {
    0x1.5555555555555p-1, 0x1.999999999999ap-2, 0x1.2492492492492p-2, 0x1.c71c71c71c71cp-3, 0x1.745d1745d1746p-3,
    0x1.3b13b13b13b14p-3, 0x1.1111111111111p-3, 0x1.e1e1e1e1e1e1ep-4, 0x1.af286bca1af28p-4, 0x1.8618618618618p-4};
static const double SIN[] = {
    -0x1.5555555555555p-3, 0x1.1111111111111p-7,  -0x1.a01a01a01a01ap-13, 0x1.71de3a556c734p-19, -0x1.ae64567f544e4p-26,
    0x1.6124613a86d09p-33, -0x1.ae7f3e733b81fp-41, 0x1.952c77030ad4ap-49};
static const double COS[] = {
    0x1.5555555555555p-5, -0x1.6c16c16c16c17p-10, 0x1.a01a01a01a01ap-16, -0x1.27e4fb7789f5cp-22, 0x1.1eed8eff8d898p-29,
    -0x1.93974a8c07c9dp-37, 0x1.ae7f3e733b81fp-45, -0x1.6827863b97d97p-53};

#define LENGTH(table) ((int)(sizeof(table) / sizeof((table)[0])))
#define POLYNOMIAL(x, table) horner((x), (table), LENGTH(table))

static double from_bits(uint64_t bits) { double x; memcpy(&x, &bits, 8); return x; }
static uint64_t to_bits(double x) { uint64_t bits; memcpy(&bits, &x, 8); return bits; }
static double infinity(void) { return from_bits(0x7ff0000000000000); }
static double not_a_number(void) { return from_bits(0x7ff8000000000000); }
static int negative(double x) { return (int)(to_bits(x) >> 63); }
static double magnitude(double x) { return from_bits(to_bits(x) & 0x7fffffffffffffff); }
static double power_of_two(int n) { return from_bits((uint64_t)(n + 1023) << 52); }

static double horner(double x, const double *table, int length) {
    double total = table[length - 1];
    for (int i = length - 2; i >= 0; i--) total = total * x + table[i];
    return total;
}

/* exp(x) = 2^n (1 + r + t) */
static int exp_reduced(double x, double *r, double *t) {
    double shifted = x * INVERSE_LN2 + SHIFT;
    double k = shifted - SHIFT;
    double high = x - k * LN2_HIGH, low = k * LN2_LOW;
    *r = high - low;
    double lost = (high - *r) - low;
    *t = *r * *r * POLYNOMIAL(*r, EXP) + lost;
    return (int)((int64_t)to_bits(shifted) - SHIFT_BITS);
}

static double strict_exp(double x) {
    if (x != x) return not_a_number();
    if (x < -746.0) return 0.0;
    if (x > 710.0) return infinity();
    double r, t;
    int n = exp_reduced(x, &r, &t);
    double head = 1.0 + r;
    double tail = r - (head - 1.0);
    double y = head + (tail + t);
    int half = n / 2;
    return y * power_of_two(half) * power_of_two(n - half);
}

/* x = 2^k m, SQRT_HALF <= m < 2 SQRT_HALF, for normal x > 0 */
static int split(double x, double *m) {
    int k = (int)(to_bits(x) >> 52) - 1023;
    double value = from_bits((to_bits(x) & 0x000fffffffffffff) | 0x3ff0000000000000);
    if (value >= 2.0 * SQRT_HALF) { value *= 0.5; k += 1; }
    *m = value;
    return k;
}

static double log_sum(int exponent, double f, double lost) {
    double k = exponent;
    double s = f / (2.0 + f);
    double z = s * s;
    double half_square = 0.5 * f * f;
    double rest = s * (half_square + z * POLYNOMIAL(z, LOG)) - half_square;
    double high = k * LN2_HIGH;
    double head = high + f;
    double tail = f - (head - high);
    return head + (tail + (rest + (k * LN2_LOW + lost)));
}

static double strict_log(double x) {
    if (x != x || x < 0.0) return not_a_number();
    if (x == 0.0) return -infinity();
    if (x == infinity()) return x;
    int below = 0;
    if (x < 0x1p-1022) { x *= 0x1p54; below = 54; }
    double m;
    int k = split(x, &m);
    return log_sum(k - below, m - 1.0, 0.0);
}

static double strict_log1p(double x) {
    if (x != x || x < -1.0) return not_a_number();
    if (x == -1.0) return -infinity();
    if (x == 0.0 || x == infinity()) return x;
    double u = 1.0 + x, m;
    int k = split(u, &m);
    if (k == 0) return log_sum(0, x, 0.0);
    double lost = x >= 1.0 ? 1.0 - (u - x) : x - (u - 1.0);
    return log_sum(k, m - 1.0, lost / u);
}

static double upper_half(double x) {
    double product = 134217729.0 * x;
    return product - (product - x);
}

static double strict_tanh(double x) {
    if (x != x) return not_a_number();
    double a = magnitude(x);
    if (a > 22.0) a = 22.0;
    double r, t;
    double power = power_of_two(exp_reduced(a + a, &r, &t));
    double whole = power - 1.0, power_r = power * r, power_t = power * t;
    double first = whole + power_r;
    double first_low = power_r - (first - whole);
    double e = first + power_t;
    double e_low = first_low + (power_t - (e - first));
    double d = e + 2.0;
    double two = d - e;
    double d_low = ((e - (d - two)) + (2.0 - two)) + e_low;
    double q = upper_half(e / d);
    double d_upper = upper_half(d), d_lower = d - d_upper;
    double remainder = (e - q * d_upper) - q * d_lower;
    double value = q + (remainder + (e_low - q * d_low)) / d;
    return negative(x) ? -value : value;
}

static double minus(double a, double b, double *error) {
    double difference = a - b;
    double minus_b = difference - a;
    *error = (a - (difference - minus_b)) - (b + minus_b);
    return difference;
}

/* The sine (turn = 0) or cosine (turn = 1) of a >= 0: cos(a) = sin(a + pi/2) */
static double sine_after(double a, int turn) {
    double shifted = a * INVERSE_HALF_PI + SHIFT;
    double k = shifted - SHIFT;
    double error_2, error_3;
    double first = a - k * HALF_PI_1;
    double second = minus(first, k * HALF_PI_2, &error_2);
    double third = minus(second, k * HALF_PI_3, &error_3);
    double error = error_2 + (error_3 - k * HALF_PI_4);
    double r = third + error;
    double r_low = error - (r - third);
    double z = r * r;
    double half_square = 0.5 * z;
    double head = 1.0 - half_square;
    int64_t n = (int64_t)to_bits(shifted) - SHIFT_BITS + turn;
    double value;
    if (n & 1) {
        double tail = (1.0 - head) - half_square;
        value = head + (tail + (z * z * POLYNOMIAL(z, COS) - r * r_low));
    } else {
        value = r + (r * (z * POLYNOMIAL(z, SIN)) + head * r_low);
    }
    return n & 2 ? -value : value;
}

static double strict_sin(double x) {
    double a = magnitude(x);
    if (!(a <= 1.0e6)) return not_a_number();
    double value = sine_after(a, 0);
    return negative(x) ? -value : value;
}

static double strict_cos(double x) {
    double a = magnitude(x);
    if (!(a <= 1.0e6)) return not_a_number();
    return sine_after(a, 1);
}

#define OVER_ARRAY(name) \
    void name##_array(const double *x, double *y, int64_t n) { for (int64_t i = 0; i < n; i++) y[i] = strict_##name(x[i]); }
OVER_ARRAY(exp)
OVER_ARRAY(log)
OVER_ARRAY(log1p)
OVER_ARRAY(tanh)
OVER_ARRAY(sin)
OVER_ARRAY(cos)
