/* Parallel loops: the caller and the workers draw chunks from one counter. The caller never waits for a worker that has
   not started, so a loop on a busy machine is not much slower than without workers. Nested or concurrent calls run alone. */
#ifndef RE_POOL_H
#define RE_POOL_H
#include <stdint.h>
#include <stdlib.h>

typedef void (*re_body)(char *const *B, int64_t first, int64_t last, int64_t worker);

#if defined(REWRITE_ENGINE_NO_THREADS)
static __attribute__((unused)) void re_parallel(re_body body, char *const *B, int64_t n, int64_t chunk) {
  (void)chunk;
  body(B, 0, n, 0);
}
__attribute__((visibility("default"))) int re_set_threads(int count) { (void)count; return 1; }
#else
#include <pthread.h>
#include <stdatomic.h>
#if defined(__x86_64__) || defined(__i386__)
#define RE_PAUSE() __builtin_ia32_pause()
#else
#define RE_PAUSE() ((void)0)
#endif
#define RE_MOST_THREADS 64

static struct {
  _Atomic uint64_t state;    /* number of the loop << 32 | next chunk: a late worker cannot take a chunk of another loop */
  _Atomic uint32_t loop;
  _Atomic int64_t done;
  _Atomic(re_body) body;
  _Atomic(char *const *) buffers;
  _Atomic int64_t n, chunk, most;
  pthread_mutex_t sleeping, busy;
  pthread_cond_t wake;
  int threads, started;
} re_pool = {.sleeping = PTHREAD_MUTEX_INITIALIZER, .busy = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER};

static void re_drain(uint32_t loop, int64_t worker) {
  uint64_t state = atomic_load(&re_pool.state);
  while ((uint32_t)(state >> 32) == loop) {
    re_body body = atomic_load(&re_pool.body);
    char *const *buffers = atomic_load(&re_pool.buffers);
    int64_t n = atomic_load(&re_pool.n), chunk = atomic_load(&re_pool.chunk), first = (int64_t)(uint32_t)state * chunk;
    if (first >= n || worker >= atomic_load(&re_pool.most)) return;
    if (!atomic_compare_exchange_weak(&re_pool.state, &state, state + 1)) continue;
    body(buffers, first, first + chunk < n ? first + chunk : n, worker);
    atomic_fetch_add(&re_pool.done, 1);
    state = atomic_load(&re_pool.state);
  }
}

static void *re_worker(void *argument) {
  uint32_t seen = 0, loop;
  for (;;) {
    for (int spins = 0; (loop = atomic_load(&re_pool.loop)) == seen;) {
      if (++spins < 4000) { RE_PAUSE(); continue; }
      pthread_mutex_lock(&re_pool.sleeping);
      while (atomic_load(&re_pool.loop) == seen) pthread_cond_wait(&re_pool.wake, &re_pool.sleeping);
      pthread_mutex_unlock(&re_pool.sleeping);
    }
    seen = loop;
    re_drain(loop, (int64_t)(intptr_t)argument);
  }
  return 0;
}

/* Threads that loops may use from now on (the caller counts); returns how many there are. */
__attribute__((visibility("default"))) int re_set_threads(int count) {
  pthread_mutex_lock(&re_pool.busy);
  re_pool.threads = count < 1 ? 1 : count > RE_MOST_THREADS ? RE_MOST_THREADS : count;
  for (; re_pool.started < re_pool.threads - 1; re_pool.started++) {
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    int failed = pthread_create(&thread, &attributes, re_worker, (void *)(intptr_t)(re_pool.started + 1));
    pthread_attr_destroy(&attributes);
    if (failed) { re_pool.threads = re_pool.started + 1; break; }
  }
  count = re_pool.threads;
  pthread_mutex_unlock(&re_pool.busy);
  return count;
}

/* body over 0 .. n-1 in chunks. */
static __attribute__((unused)) void re_parallel(re_body body, char *const *B, int64_t n, int64_t chunk) {
  if (re_pool.threads == 0) {
    const char *wanted = getenv("REWRITE_ENGINE_THREADS");
    re_set_threads(wanted ? atoi(wanted) : 1);
  }
  int64_t chunks = (n + chunk - 1) / chunk;
  int64_t most = re_pool.threads;
  if (most < 2 || chunks < 2 || pthread_mutex_trylock(&re_pool.busy)) { body(B, 0, n, 0); return; }
  uint32_t loop = atomic_load(&re_pool.loop) + 1;
  atomic_store(&re_pool.state, (uint64_t)loop << 32 | 0xffffffffu); /* a late worker's exchange fails from here on */
  atomic_store(&re_pool.body, body);
  atomic_store(&re_pool.buffers, B);
  atomic_store(&re_pool.n, n);
  atomic_store(&re_pool.chunk, chunk);
  atomic_store(&re_pool.most, most);
  atomic_store(&re_pool.done, 0);
  atomic_store(&re_pool.state, (uint64_t)loop << 32);
  pthread_mutex_lock(&re_pool.sleeping);
  atomic_store(&re_pool.loop, loop);
  pthread_cond_broadcast(&re_pool.wake);
  pthread_mutex_unlock(&re_pool.sleeping);
  re_drain(loop, 0);
  while (atomic_load(&re_pool.done) < chunks) RE_PAUSE();
  pthread_mutex_unlock(&re_pool.busy);
}
#endif
#endif
