/* Tensors as DLPack describes them, checked against a kernel's signature, and the call itself. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct { int32_t type, id; } re_device;
typedef struct { uint8_t code, bits; uint16_t lanes; } re_element;
typedef struct { void *data; re_device device; int32_t rank; re_element element; int64_t *shape, *strides; uint64_t offset; } re_tensor;

typedef struct { re_element element; int32_t device, rank; int64_t shape[RE_MOST_DIMENSIONS]; } re_operand;
typedef struct {
  const char *symbol;
  int32_t inputs, outputs;
  const re_operand *operands; /* inputs, then outputs */
  int64_t workspace;
  int (*run)(void **inputs, void **outputs, void *workspace);
} re_signature;

static _Thread_local char re_message[512];

static int re_refuse(const re_signature *s, int32_t at, const char *what, int64_t expected, int64_t found) {
  snprintf(re_message, sizeof re_message, "kernel %s: argument %d: expected %s %lld, found %lld", s->symbol, at, what,
           (long long)expected, (long long)found);
  return -1;
}

/* -1 and a message where a tensor is not what the kernel takes. The host's memory will do where `anywhere` is set. */
static int re_accept(const re_signature *s, int32_t at, const re_tensor *t, int anywhere) {
  const re_operand *o = s->operands + at;
  int same = t->element.code == o->element.code && t->element.bits == o->element.bits;
  int both_bool = (o->element.code == 6 || (o->element.code == 1 && o->element.bits == 1)) &&
                  ((t->element.code == 6 && t->element.bits == 8) || (t->element.code == 1 && t->element.bits == 1));
  if (t->element.lanes != 1 || !(same || both_bool))
    return re_refuse(s, at, "an element type (DLPack code * 256 + bits)", o->element.code * 256 + o->element.bits, t->element.code * 256 + t->element.bits);
  if (t->device.type != o->device && !(anywhere && t->device.type == 1)) return re_refuse(s, at, "a tensor on device type", o->device, t->device.type);
  if (t->rank != o->rank) return re_refuse(s, at, "dimensions:", o->rank, t->rank);
  int64_t step = 1;
  for (int32_t d = o->rank - 1; d >= 0; d--) {
    if (t->shape[d] != o->shape[d]) return re_refuse(s, at, "a size of", o->shape[d], t->shape[d]);
    if (t->strides && t->shape[d] > 1 && t->strides[d] != step) return re_refuse(s, at, "a stride (rows without gaps) of", step, t->strides[d]);
    step *= t->shape[d];
  }
  return 0;
}

/* Scratch memory of this thread, kept for its next call. */
static void *re_scratch(int64_t size) {
  static _Thread_local void *room;
  static _Thread_local int64_t have;
  if (size > have) {
    free(room);
    have = (size + 63) / 64 * 64;
    room = aligned_alloc(64, (size_t)have);
    if (!room) have = 0;
  }
  return room;
}

static int re_count(const re_signature *s, int32_t count) {
  if (count == s->inputs + s->outputs) return 0;
  snprintf(re_message, sizeof re_message, "kernel %s: expected %d inputs and %d outputs, found %d arguments", s->symbol, s->inputs, s->outputs, count);
  return -1;
}

static int re_start(const re_signature *s, re_tensor *const *tensors, int anywhere) {
  void *pointers[s->inputs + s->outputs];
  for (int32_t at = 0; at < s->inputs + s->outputs; at++) {
    if (re_accept(s, at, tensors[at], anywhere)) return -1;
    pointers[at] = (char *)tensors[at]->data + tensors[at]->offset;
  }
  void *workspace = s->workspace ? re_scratch(s->workspace) : 0;
  if (s->workspace && !workspace) {
    snprintf(re_message, sizeof re_message, "kernel %s: no memory for a workspace of %lld bytes", s->symbol, (long long)s->workspace);
    return -1;
  }
  int status = s->run(pointers, pointers + s->inputs, workspace);
  if (status) snprintf(re_message, sizeof re_message, "kernel %s: %s", s->symbol, re_failure());
  return status;
}
