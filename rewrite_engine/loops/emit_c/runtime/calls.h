/* A list of kernel calls, run in order: what an executor does, without leaving C between kernels. */
#include <stdint.h>

struct re_call {
  int (*run)(void **inputs, void **outputs, void *workspace);
  int (*run_packed)(void **inputs, void **outputs, void *workspace, void *packed); /* where it is not null, the one to run */
  void **inputs, **outputs, *workspace, *packed;
};

__attribute__((visibility("default"))) int re_run(const struct re_call *calls, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    const struct re_call *c = calls + i;
    int status = c->run_packed ? c->run_packed(c->inputs, c->outputs, c->workspace, c->packed) : c->run(c->inputs, c->outputs, c->workspace);
    if (status) return status;
  }
  return 0;
}
