/* Scalar operations with the meaning of the expressions of a program, where C leaves it undefined or has another one:
   NaN goes through min and max, integers wrap and truncate, x / 0 is 0, shifts past the width give 0 (or the sign). */
#ifndef RE_SCALAR_H
#define RE_SCALAR_H
#include <math.h>
#include <stdint.h>
#include <string.h>

#define RE_INLINE static inline __attribute__((always_inline, unused))

RE_INLINE int64_t re_floor_div(int64_t a, int64_t b) { int64_t q = a / b; return q - ((a % b != 0) & ((a < 0) != (b < 0))); }
RE_INLINE int64_t re_min_s(int64_t a, int64_t b) { return a < b ? a : b; }
RE_INLINE int64_t re_max_s(int64_t a, int64_t b) { return a > b ? a : b; }
RE_INLINE uint64_t re_min_u(uint64_t a, uint64_t b) { return a < b ? a : b; }
RE_INLINE uint64_t re_max_u(uint64_t a, uint64_t b) { return a > b ? a : b; }

RE_INLINE int64_t re_div_s(int64_t a, int64_t b) { return b == 0 ? 0 : b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b; }
RE_INLINE uint64_t re_div_u(uint64_t a, uint64_t b) { return b == 0 ? 0 : a / b; }
RE_INLINE int64_t re_mod_s(int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a - b * re_floor_div(a, b); }
RE_INLINE uint64_t re_mod_u(uint64_t a, uint64_t b) { return b == 0 ? 0 : a % b; }
RE_INLINE int64_t re_fmod_s(int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a % b; }
RE_INLINE uint64_t re_fmod_u(uint64_t a, uint64_t b) { return b == 0 ? 0 : a % b; }
RE_INLINE int64_t re_shift_left_s(int64_t a, int64_t b, int bits) { return (uint64_t)b >= (uint64_t)bits ? 0 : (int64_t)((uint64_t)a << b); }
RE_INLINE uint64_t re_shift_left_u(uint64_t a, uint64_t b, int bits) { return b >= (uint64_t)bits ? 0 : a << b; }
RE_INLINE int64_t re_shift_right_s(int64_t a, int64_t b, int bits) { return (uint64_t)b >= (uint64_t)bits ? (a < 0 ? -1 : 0) : a >> b; }
RE_INLINE uint64_t re_shift_right_u(uint64_t a, uint64_t b, int bits) { return b >= (uint64_t)bits ? 0 : a >> b; }
RE_INLINE uint64_t re_pow_u(uint64_t a, uint64_t b) { uint64_t r = 1; for (; b; b >>= 1, a *= a) if (b & 1) r *= a; return r; }
RE_INLINE int64_t re_pow_s(int64_t a, int64_t b) { return b < 0 ? (a == 1 ? 1 : a == -1 ? ((b & 1) ? -1 : 1) : 0) : (int64_t)re_pow_u((uint64_t)a, (uint64_t)b); }

/* Out of range and NaN become the most negative value, as the processor's own conversion does. */
RE_INLINE int32_t re_to_int32(double x) { return x > -2147483649.0 && x < 2147483648.0 ? (int32_t)x : INT32_MIN; }
RE_INLINE int64_t re_to_int64(double x) { return x >= -9223372036854775808.0 && x < 9223372036854775808.0 ? (int64_t)x : INT64_MIN; }
RE_INLINE uint64_t re_to_uint64(double x) { return x < 9223372036854775808.0 ? (uint64_t)re_to_int64(x) : (uint64_t)re_to_int64(x - 9223372036854775808.0) ^ 0x8000000000000000ull; }
RE_INLINE int8_t re_wrap_int4(int64_t x) { return (int8_t)((int8_t)((uint8_t)x << 4) >> 4); }
RE_INLINE uint8_t re_wrap_uint4(int64_t x) { return (uint8_t)(x & 15); }
RE_INLINE int8_t re_wrap_int2(int64_t x) { return (int8_t)((int8_t)((uint8_t)x << 6) >> 6); }
RE_INLINE uint8_t re_wrap_uint2(int64_t x) { return (uint8_t)(x & 3); }

RE_INLINE float re_maxf(float a, float b) { return a >= b || a != a ? a : b; }
RE_INLINE float re_minf(float a, float b) { return a <= b || a != a ? a : b; }
RE_INLINE double re_max(double a, double b) { return a >= b || a != a ? a : b; }
RE_INLINE double re_min(double a, double b) { return a <= b || a != a ? a : b; }
RE_INLINE float re_signf(float x) { return x != x ? x : (float)((x > 0) - (x < 0)); }
RE_INLINE double re_sign(double x) { return x != x ? x : (double)((x > 0) - (x < 0)); }
RE_INLINE float re_modf(float a, float b) {
  if (b == 0) return NAN;
  float r = fmodf(a, b);
  return r == 0 ? copysignf(0, b) : (b < 0) != (r < 0) ? r + b : r;
}
RE_INLINE double re_mod(double a, double b) {
  if (b == 0) return NAN;
  double r = fmod(a, b);
  return r == 0 ? copysign(0, b) : (b < 0) != (r < 0) ? r + b : r;
}
/* A rational approximation (of Eigen), within a few units in the last place. */
RE_INLINE float re_erff(float v) {
  float x = v > 4.f ? 4.f : v < -4.f ? -4.f : v, s = x * x;
  float a = -2.72614225801306e-10f, b = -1.45660718464996e-05f;
  a = a * s + 2.77068142495902e-08f; a = a * s - 2.10102402082508e-06f; a = a * s - 5.69250639462346e-05f;
  a = a * s - 7.34990630326855e-04f; a = a * s - 2.95459980854025e-03f; a = a * s - 1.60960333262415e-02f;
  b = b * s - 2.13374055278905e-04f; b = b * s - 1.68282697438203e-03f; b = b * s - 7.37332916720468e-03f;
  b = b * s - 1.42647390514189e-02f;
  return x * a / b;
}

/* Low-precision floats are stored as their bits and computed in float32. */
RE_INLINE float re_bits_float(uint32_t u) { float f; memcpy(&f, &u, 4); return f; }
RE_INLINE uint32_t re_float_bits(float f) { uint32_t u; memcpy(&u, &f, 4); return u; }
#if defined(__FLT16_MAX__)
RE_INLINE float re_from_float16(uint16_t h) { _Float16 x; memcpy(&x, &h, 2); return (float)x; }
RE_INLINE uint16_t re_to_float16(float f, int saturate) { (void)saturate; _Float16 x = (_Float16)f; uint16_t h; memcpy(&h, &x, 2); return h; }
RE_INLINE uint16_t re_double_to_float16(double f) { _Float16 x = (_Float16)f; uint16_t h; memcpy(&h, &x, 2); return h; }
#else
RE_INLINE float re_from_float16(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = (h >> 10) & 31, fraction = h & 0x3ff;
  if (exponent == 31) return re_bits_float(sign | 0x7f800000 | fraction << 13);
  float magnitude = exponent ? ldexpf((float)(fraction + 1024), (int)exponent - 25) : ldexpf((float)fraction, -24);
  return sign ? -magnitude : magnitude;
}
RE_INLINE uint16_t re_double_to_float16(double f) {
  uint16_t sign = signbit(f) ? 0x8000 : 0;
  if (f != f) return (uint16_t)(sign | 0x7e00);
  double a = fabs(f);
  if (a >= 65520.0) return (uint16_t)(sign | 0x7c00);
  if (a < 6.103515625e-05) return (uint16_t)(sign | (uint16_t)nearbyint(a * 16777216.0));
  int exponent;
  frexp(a, &exponent);
  uint16_t fraction = (uint16_t)nearbyint(ldexp(a, 11 - exponent)); /* in 1024 .. 2048 */
  return (uint16_t)(sign + (uint16_t)((exponent + 13) << 10) + fraction);
}
RE_INLINE uint16_t re_to_float16(float f, int saturate) { (void)saturate; return re_double_to_float16(f); }
#endif
RE_INLINE float re_from_bfloat16(uint16_t h) { return re_bits_float((uint32_t)h << 16); }
RE_INLINE uint16_t re_to_bfloat16(float f, int saturate) {
  (void)saturate;
  uint32_t u = re_float_bits(f);
  return (uint16_t)(f != f ? (u >> 16) | 0x40 : (u + 0x7fff + ((u >> 16) & 1)) >> 16);
}
/* 8 and 4 bit floats: the nearest of the sorted non-negative values; `special` holds the codes of nan, -nan, saturated
   inf, -inf, then inf, -inf, overflow, -overflow, negative zero, and the sign bit (0 where there is none). */
static __attribute__((unused)) uint8_t re_encode(float x, int saturate, const float *values, const uint8_t *codes, int count, const uint8_t *special) {
  int negative = signbit(x) != 0, low = 0, high = count - 1;
  if (x != x) return special[negative];
  float a = fabsf(x);
  if (a == INFINITY) return special[(saturate ? 2 : 4) + negative];
  if (a >= values[high]) {
    float limit = values[high] + (values[high] - values[high - 1]) * 0.5f;
    if (!saturate && (a > limit || (a == limit && (codes[high] & 1)))) return special[6 + negative];
    low = high;
  } else {
    while (high - low > 1) { int middle = (low + high) / 2; if (values[middle] <= a) low = middle; else high = middle; }
    double half = ((double)values[low] + values[high]) * 0.5;
    if (a > half || (a == half && (codes[low] & 1))) low = high;
  }
  if (!negative) return codes[low];
  return codes[low] == 0 ? special[8] : special[9] ? codes[low] | special[9] : codes[0];
}
#endif
