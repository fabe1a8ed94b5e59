/* What a kernel says when it refuses its data: a message of the thread that called it. */
#include <stdint.h>
#include <stdio.h>

static _Thread_local char re_failed[256];

static __attribute__((unused)) int re_refused(const char *expected, int64_t found) {
  snprintf(re_failed, sizeof re_failed, "%s, found %lld", expected, (long long)found);
  return -1;
}

__attribute__((visibility("default"))) const char *re_failure(void) { return re_failed; }
