/* Lanes of float32: RE_W of them, 1 without vector extensions. Masks are lanes of int32, 0 or -1. */
#ifndef RE_VECTOR_H
#define RE_VECTOR_H
#include "scalar.h"

#if defined(REWRITE_ENGINE_SCALAR) || !defined(__GNUC__)
#define RE_W 1
typedef float re_f;
typedef int32_t re_i;
#define RE_LANE(x, l) (x)
#define RE_TRUE(c) (-(int32_t)(c))
RE_INLINE re_f re_splat(float x) { return x; }
RE_INLINE re_i re_splat_i(int32_t x) { return x; }
RE_INLINE re_i re_iota(void) { return 0; }
RE_INLINE re_f re_to_f(re_i x) { return (float)x; }
RE_INLINE re_f re_as_f(re_i x) { return re_bits_float((uint32_t)x); }
RE_INLINE re_i re_as_i(re_f x) { return (int32_t)re_float_bits(x); }
RE_INLINE re_f re_load(const float *p) { return *p; }
RE_INLINE void re_store(float *p, re_f x) { *p = x; }
#else
#if defined(__AVX512F__)
#define RE_W 16
#elif defined(__AVX__)
#define RE_W 8
#else
#define RE_W 4
#endif
typedef float re_f __attribute__((vector_size(RE_W * 4), may_alias));
typedef float re_fu __attribute__((vector_size(RE_W * 4), aligned(4), may_alias));
typedef int32_t re_i __attribute__((vector_size(RE_W * 4), may_alias));
#define RE_LANE(x, l) ((x)[l])
#define RE_TRUE(c) (c)
RE_INLINE re_f re_splat(float x) { return x - (re_f){0}; }
RE_INLINE re_i re_splat_i(int32_t x) { return x - (re_i){0}; }
RE_INLINE re_i re_iota(void) { re_i x; for (int l = 0; l < RE_W; l++) x[l] = l; return x; }
RE_INLINE re_f re_to_f(re_i x) { return __builtin_convertvector(x, re_f); }
RE_INLINE re_f re_as_f(re_i x) { return (re_f)x; }
RE_INLINE re_i re_as_i(re_f x) { return (re_i)x; }
RE_INLINE re_f re_load(const float *p) { return (re_f)*(const re_fu *)p; }
RE_INLINE void re_store(float *p, re_f x) { *(re_fu *)p = (re_fu)x; }
#endif

#if RE_W == 1
#define RE_EACH(f, x) f(x)
#define RE_EACH_OF_TWO(f, x, y) f(x, y)
#else
#define RE_EACH(f, x) ({ re_f re_x = (x), re_r; for (int l = 0; l < RE_W; l++) re_r[l] = f(re_x[l]); re_r; })
#define RE_EACH_OF_TWO(f, x, y) ({ re_f re_x = (x), re_y = (y), re_r; for (int l = 0; l < RE_W; l++) re_r[l] = f(re_x[l], re_y[l]); re_r; })
#endif

#if RE_W == 16
#include <immintrin.h>
#define RE_FIRST(n) ((__mmask16)((1u << (n)) - 1))
RE_INLINE re_f re_load_n(const float *p, int64_t n) { return (re_f)_mm512_maskz_loadu_ps(RE_FIRST(n), p); }
RE_INLINE void re_store_n(float *p, re_f x, int64_t n) { _mm512_mask_storeu_ps(p, RE_FIRST(n), (__m512)x); }
RE_INLINE re_f re_max_c(re_f c, re_f x) { return (re_f)_mm512_max_ps((__m512)c, (__m512)x); }
RE_INLINE re_f re_min_c(re_f c, re_f x) { return (re_f)_mm512_min_ps((__m512)c, (__m512)x); }
RE_INLINE re_f re_select(re_i m, re_f a, re_f b) { return (re_f)_mm512_mask_blend_ps(_mm512_movepi32_mask((__m512i)m), (__m512)b, (__m512)a); }
RE_INLINE re_f re_max_v(re_f a, re_f b) {
  return (re_f)_mm512_mask_mov_ps(_mm512_max_ps((__m512)a, (__m512)b), _mm512_cmp_ps_mask((__m512)a, (__m512)a, _CMP_UNORD_Q), (__m512)a);
}
RE_INLINE re_f re_min_v(re_f a, re_f b) {
  return (re_f)_mm512_mask_mov_ps(_mm512_min_ps((__m512)a, (__m512)b), _mm512_cmp_ps_mask((__m512)a, (__m512)a, _CMP_UNORD_Q), (__m512)a);
}
RE_INLINE re_f re_sqrt_v(re_f x) { return (re_f)_mm512_sqrt_ps((__m512)x); }
RE_INLINE re_f re_floor_v(re_f x) { return (re_f)_mm512_roundscale_ps((__m512)x, 9); }
RE_INLINE re_f re_ceil_v(re_f x) { return (re_f)_mm512_roundscale_ps((__m512)x, 10); }
RE_INLINE re_f re_round_v(re_f x) { return (re_f)_mm512_roundscale_ps((__m512)x, 8); }
RE_INLINE re_f re_trunc_v(re_f x) { return (re_f)_mm512_roundscale_ps((__m512)x, 11); }
RE_INLINE re_f re_scale_v(re_f x, re_f n) { return (re_f)_mm512_scalef_ps((__m512)x, (__m512)n); }
RE_INLINE float re_sum_v(re_f x) { return _mm512_reduce_add_ps((__m512)x); }
#else
#if RE_W == 1
RE_INLINE re_f re_load_n(const float *p, int64_t n) { return n > 0 ? *p : 0.f; }
RE_INLINE void re_store_n(float *p, re_f x, int64_t n) { if (n > 0) *p = x; }
#else
RE_INLINE re_f re_load_n(const float *p, int64_t n) { re_f x = {0}; for (int64_t l = 0; l < n; l++) x[l] = p[l]; return x; }
RE_INLINE void re_store_n(float *p, re_f x, int64_t n) { for (int64_t l = 0; l < n; l++) p[l] = x[l]; }
#endif
RE_INLINE re_f re_select(re_i m, re_f a, re_f b) { return re_as_f((re_as_i(a) & m) | (re_as_i(b) & ~m)); }
RE_INLINE re_f re_max_c(re_f c, re_f x) { return re_select(RE_TRUE(c > x), c, x); }
RE_INLINE re_f re_min_c(re_f c, re_f x) { return re_select(RE_TRUE(c < x), c, x); }
RE_INLINE re_f re_max_v(re_f a, re_f b) { return re_select(RE_TRUE(a >= b) | RE_TRUE(a != a), a, b); }
RE_INLINE re_f re_min_v(re_f a, re_f b) { return re_select(RE_TRUE(a <= b) | RE_TRUE(a != a), a, b); }
RE_INLINE re_f re_sqrt_v(re_f x) { return RE_EACH(sqrtf, x); }
RE_INLINE re_f re_floor_v(re_f x) { return RE_EACH(floorf, x); }
RE_INLINE re_f re_ceil_v(re_f x) { return RE_EACH(ceilf, x); }
RE_INLINE re_f re_round_v(re_f x) { return RE_EACH(rintf, x); }
RE_INLINE re_f re_trunc_v(re_f x) { return RE_EACH(truncf, x); }
#if RE_W == 1
RE_INLINE re_f re_scale_v(re_f x, re_f n) { return ldexpf(x, (int)n); }
RE_INLINE float re_sum_v(re_f x) { return x; }
#else
RE_INLINE re_f re_scale_v(re_f x, re_f n) { /* in two steps, so that results below the normal range are reached */
  re_i k = __builtin_convertvector(n, re_i), half = k >> 1;
  return x * re_as_f((half + 127) << 23) * re_as_f((k - half + 127) << 23);
}
RE_INLINE float re_sum_v(re_f x) { float s = x[0]; for (int l = 1; l < RE_W; l++) s += x[l]; return s; }
#endif
#endif

RE_INLINE float re_prod_v(re_f x) { float s = RE_LANE(x, 0); for (int l = 1; l < RE_W; l++) s *= RE_LANE(x, l); return s; }
#if RE_W == 16
RE_INLINE int re_has_nan(re_f x) { return _mm512_cmp_ps_mask((__m512)x, (__m512)x, _CMP_UNORD_Q) != 0; }
RE_INLINE float re_top_v(re_f x) { return re_has_nan(x) ? NAN : _mm512_reduce_max_ps((__m512)x); }
RE_INLINE float re_bottom_v(re_f x) { return re_has_nan(x) ? NAN : _mm512_reduce_min_ps((__m512)x); }
#else
RE_INLINE float re_top_v(re_f x) { float s = RE_LANE(x, 0); for (int l = 1; l < RE_W; l++) s = re_maxf(s, RE_LANE(x, l)); return s; }
RE_INLINE float re_bottom_v(re_f x) { float s = RE_LANE(x, 0); for (int l = 1; l < RE_W; l++) s = re_minf(s, RE_LANE(x, l)); return s; }
#endif
/* The first n lanes of x, the others from `rest`. */
RE_INLINE re_f re_first(re_f x, re_f rest, int64_t n) { return re_select(RE_TRUE(re_iota() < (int32_t)n), x, rest); }
RE_INLINE re_f re_abs_v(re_f x) { return re_as_f(re_as_i(x) & 0x7fffffff); }
RE_INLINE re_f re_sign_v(re_f x) { re_f one = re_splat(1.f); return re_select(RE_TRUE(x > 0.f), one, re_select(RE_TRUE(x < 0.f), -one, x)); }

#if RE_W == 1
RE_INLINE re_f re_load_step(const float *p, int64_t step, int64_t n) { (void)step; return n > 0 ? *p : 0.f; }
#else
RE_INLINE re_f re_load_step(const float *p, int64_t step, int64_t n) {
#if RE_W == 16
  re_i at = re_iota() * (int32_t)step;
  return (re_f)_mm512_mask_i32gather_ps(_mm512_setzero_ps(), RE_FIRST(n), (__m512i)at, p, 4);
#else
  re_f x = {0};
  for (int64_t l = 0; l < n; l++) x[l] = p[l * step];
  return x;
#endif
}
#endif
#if RE_W == 16
static const int32_t re_even[16] __attribute__((aligned(64), unused)) = {0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30};
RE_INLINE re_f re_load_two(const float *p) { /* every second of 31 floats */
  return (re_f)_mm512_permutex2var_ps(_mm512_loadu_ps(p), _mm512_load_si512(re_even), _mm512_maskz_loadu_ps(0x7fff, p + 16));
}
#else
RE_INLINE re_f re_load_two(const float *p) { return re_load_step(p, 2, RE_W); }
#endif

/* exp within 2 units in the last place: 2^n times a polynomial; NaN stays, +-inf are right. */
RE_INLINE re_f re_exp_v(re_f x) {
  re_f y = re_min_c(re_splat(104.f), re_max_c(re_splat(-120.f), x));
  re_f n = re_round_v(y * 1.44269504f), r = y - n * 0.693359375f;
  r = r + n * 2.12194440e-4f;
  re_f p = re_splat(1.9875691500e-4f);
  p = p * r + 1.3981999507e-3f; p = p * r + 8.3334519073e-3f; p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f; p = p * r + 0.5f; p = p * (r * r) + r + 1.f;
  return re_scale_v(p, n);
}
RE_INLINE re_f re_erf_v(re_f v) {
  re_f x = re_min_c(re_splat(4.f), re_max_c(re_splat(-4.f), v)), s = x * x;
  re_f a = re_splat(-2.72614225801306e-10f), b = re_splat(-1.45660718464996e-05f);
  a = a * s + 2.77068142495902e-08f; a = a * s - 2.10102402082508e-06f; a = a * s - 5.69250639462346e-05f;
  a = a * s - 7.34990630326855e-04f; a = a * s - 2.95459980854025e-03f; a = a * s - 1.60960333262415e-02f;
  b = b * s - 2.13374055278905e-04f; b = b * s - 1.68282697438203e-03f; b = b * s - 7.37332916720468e-03f;
  b = b * s - 1.42647390514189e-02f;
  return x * a / b;
}
RE_INLINE re_f re_tanh_v(re_f v) {
  re_f limit = re_splat(7.90531110763549805f), x = re_min_c(limit, re_max_c(-limit, v)), s = x * x;
  re_f a = re_splat(-2.76076847742355e-16f), b = re_splat(1.19825839466702e-06f);
  a = a * s + 2.00018790482477e-13f; a = a * s - 8.60467152213735e-11f; a = a * s + 5.12229709037114e-08f;
  a = a * s + 1.48572235717979e-05f; a = a * s + 6.37261928875436e-04f; a = a * s + 4.89352455891786e-03f;
  b = b * s + 1.18534705686654e-04f; b = b * s + 2.26843463243900e-03f; b = b * s + 4.89352518554385e-03f;
  return re_select(RE_TRUE(re_abs_v(v) < 0.0004f), v, x * a / b);
}

/* Elements of other types as lanes: n of them, the rest 0. */
#define RE_LOADER(name, type, element, as) \
  RE_INLINE re_##as re_load_##name(const type *p, int64_t n) { re_##as x = {0}; for (int64_t l = 0; l < n; l++) RE_LANE(x, l) = element; return x; }
#if RE_W == 16
RE_INLINE re_f re_load_float16(const uint16_t *p, int64_t n) { return (re_f)_mm512_cvtph_ps(_mm256_maskz_loadu_epi16(RE_FIRST(n), p)); }
RE_INLINE re_f re_load_bfloat16(const uint16_t *p, int64_t n) { return (re_f)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(RE_FIRST(n), p)), 16); }
RE_INLINE re_f re_load_int8(const int8_t *p, int64_t n) { return (re_f)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(RE_FIRST(n), p))); }
RE_INLINE re_f re_load_uint8(const uint8_t *p, int64_t n) { return (re_f)_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(RE_FIRST(n), p))); }
RE_INLINE re_i re_load_bool(const uint8_t *p, int64_t n) { return (re_i)_mm512_movm_epi32(_mm_test_epi8_mask(_mm_maskz_loadu_epi8(RE_FIRST(n), p), _mm_set1_epi8(-1))); }
RE_INLINE re_f re_load_int32(const int32_t *p, int64_t n) { return (re_f)_mm512_cvtepi32_ps(_mm512_maskz_loadu_epi32(RE_FIRST(n), p)); }
RE_INLINE re_f re_round_float16_v(re_f x) { return (re_f)_mm512_cvtph_ps(_mm512_cvtps_ph((__m512)x, 8)); }
RE_INLINE void re_store_float16(uint16_t *p, re_f x, int64_t n) { _mm256_mask_storeu_epi16(p, RE_FIRST(n), _mm512_cvtps_ph((__m512)x, 8)); }
#else
RE_LOADER(float16, uint16_t, re_from_float16(p[l]), f)
RE_LOADER(bfloat16, uint16_t, re_from_bfloat16(p[l]), f)
RE_LOADER(int8, int8_t, (float)p[l], f)
RE_LOADER(uint8, uint8_t, (float)p[l], f)
RE_LOADER(bool, uint8_t, -(int32_t)(p[l] != 0), i)
RE_LOADER(int32, int32_t, (float)p[l], f)
RE_INLINE float re_round_float16(float x) { return re_from_float16(re_to_float16(x, 1)); }
RE_INLINE re_f re_round_float16_v(re_f x) { return RE_EACH(re_round_float16, x); }
RE_INLINE void re_store_float16(uint16_t *p, re_f x, int64_t n) { for (int64_t l = 0; l < n; l++) p[l] = re_to_float16(RE_LANE(x, l), 1); }
#endif
#if RE_W == 16
RE_INLINE void re_store_int8(int8_t *p, re_f x, int64_t n) { _mm512_mask_cvtepi32_storeu_epi8(p, RE_FIRST(n), _mm512_cvttps_epi32((__m512)x)); }
RE_INLINE void re_store_uint8(uint8_t *p, re_f x, int64_t n) { _mm512_mask_cvtepi32_storeu_epi8(p, RE_FIRST(n), _mm512_cvttps_epi32((__m512)x)); }
#else
RE_INLINE void re_store_int8(int8_t *p, re_f x, int64_t n) { for (int64_t l = 0; l < n; l++) p[l] = (int8_t)re_to_int32(RE_LANE(x, l)); }
RE_INLINE void re_store_uint8(uint8_t *p, re_f x, int64_t n) { for (int64_t l = 0; l < n; l++) p[l] = (uint8_t)re_to_int32(RE_LANE(x, l)); }
#endif
RE_LOADER(int16, int16_t, (float)p[l], f)
RE_LOADER(uint16, uint16_t, (float)p[l], f)
RE_INLINE re_f re_round_bfloat16_v(re_f x) {
  re_i u = re_as_i(x), r = (u + 0x7fff + ((u >> 16) & 1)) & (int32_t)0xffff0000u;
  return re_select(RE_TRUE(x != x), x, re_as_f(r));
}
RE_INLINE void re_store_bfloat16(uint16_t *p, re_f x, int64_t n) { for (int64_t l = 0; l < n; l++) p[l] = re_to_bfloat16(RE_LANE(x, l), 1); }

RE_INLINE void re_store_step(float *p, re_f x, int64_t step, int64_t n) { for (int64_t l = 0; l < n; l++) p[l * step] = RE_LANE(x, l); }
RE_INLINE void re_fill(float *y, float value, int64_t n) {
  int64_t i = 0;
  for (; i + RE_W <= n; i += RE_W) re_store(y + i, re_splat(value));
  if (i < n) re_store_n(y + i, re_splat(value), n - i);
}
RE_INLINE void re_copy(float *y, const float *x, int64_t n) {
  int64_t i = 0;
  for (; i + RE_W <= n; i += RE_W) re_store(y + i, re_load(x + i));
  if (i < n) re_store_n(y + i, re_load_n(x + i, n - i), n - i);
}
RE_INLINE void re_copy_step(float *y, const float *x, int64_t step, int64_t n) {
  int64_t i = 0;
  for (; i + RE_W < n; i += RE_W) re_store(y + i, step == 2 ? re_load_two(x + 2 * i) : re_load_step(x + i * step, step, RE_W));
  for (; i < n; i += RE_W) re_store_n(y + i, re_load_step(x + i * step, step, n - i < RE_W ? n - i : RE_W), n - i < RE_W ? n - i : RE_W);
}

#define RE_COPIER(type) \
  RE_INLINE void re_copy_##type(float *y, const uint16_t *x, int64_t n) { \
    for (int64_t i = 0; i < n; i += RE_W) { \
      const int64_t left = n - i < RE_W ? n - i : RE_W; \
      re_store_n(y + i, re_load_##type(x + i, left), left); \
    } \
  } \
  RE_INLINE void re_copy_step_##type(float *y, const uint16_t *x, int64_t step, int64_t n) { \
    for (int64_t i = 0; i < n; i++) y[i] = re_from_##type(x[i * step]); \
  }
RE_COPIER(float16)
RE_COPIER(bfloat16)
#endif
