/* The packed-function ABI of the TVM 0.19 graph executor: `args` holds 8 bytes per argument, `codes` its kind. */
__attribute__((weak)) void TVMAPISetLastError(const char *message);

static int re_packed_call(const re_signature *s, void *args, const int32_t *codes, int32_t count) {
  re_tensor *tensors[s->inputs + s->outputs];
  int status = re_count(s, count);
  for (int32_t at = 0; !status && at < count; at++) {
    if (codes[at] != 7 && codes[at] != 13) status = re_refuse(s, at, "a tensor, which is of kind", 7, codes[at]);
    tensors[at] = ((re_tensor **)args)[at];
  }
  if (!status) status = re_start(s, tensors, 0);
  if (status && TVMAPISetLastError) TVMAPISetLastError(re_message);
  return status;
}
