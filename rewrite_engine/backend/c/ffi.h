/* The ABI of apache-tvm-ffi 0.1: an argument is 16 bytes, its kind first; 7 is a pointer to a tensor, 70 an object that
   holds one after its header of 24 bytes. */
typedef struct { int32_t kind; uint32_t padding; union { void *pointer; int64_t number; }; } re_any;
__attribute__((weak)) void TVMFFIErrorSetRaisedFromCStr(const char *kind, const char *message);

static int re_ffi_call(const re_signature *s, const re_any *args, int32_t count) {
  re_tensor *tensors[s->inputs + s->outputs];
  int status = re_count(s, count);
  for (int32_t at = 0; !status && at < count; at++) {
    if (args[at].kind != 7 && args[at].kind != 70) status = re_refuse(s, at, "a tensor, which is of kind", 70, args[at].kind);
    tensors[at] = (re_tensor *)((char *)args[at].pointer + (args[at].kind == 70 ? 24 : 0));
  }
  if (!status) status = re_start(s, tensors, 1);
  if (status && TVMFFIErrorSetRaisedFromCStr) TVMFFIErrorSetRaisedFromCStr("ValueError", re_message);
  return status;
}
