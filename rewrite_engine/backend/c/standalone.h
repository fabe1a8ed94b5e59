/* A program around a graph: reads .npy files into the memories, runs, writes .npy files. The tables are in front of this:
   re_inputs, re_outputs, re_weights (name, type, shape, place), re_digest, re_prepare, re_infer. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int re_fail(const char *path, const char *what, const char *detail) {
  fprintf(stderr, "%s: %s%s\n", path, what, detail);
  return 2;
}

/* The text behind `'key':` in the header of an .npy file, without spaces; "" where it is not there. */
static const char *re_field(const char *header, const char *key) {
  const char *found = strstr(header, key);
  if (!found) return "";
  found = strchr(found, ':');
  if (!found) return "";
  for (found++; *found == ' '; found++) {}
  return found;
}

static void re_shape_text(char *text, size_t room, int32_t rank, const int64_t *shape) {
  size_t used = (size_t)snprintf(text, room, "(");
  for (int32_t d = 0; d < rank && used < room; d++)
    used += (size_t)snprintf(text + used, room - used, "%lld%s", (long long)shape[d], d + 1 < rank ? ", " : rank == 1 ? "," : "");
  if (used < room) snprintf(text + used, room - used, ")");
}

static int re_same_shape(const char *found, const re_value *v) {
  if (*found++ != '(') return 0;
  for (int32_t d = 0;; d++) {
    while (*found == ' ' || *found == ',') found++;
    if (*found == ')') return d == v->rank;
    char *end;
    long long size = strtoll(found, &end, 10);
    if (end == found || d >= v->rank || size != v->shape[d]) return 0;
    found = end;
  }
}

static int re_read(const char *path, const re_value *v) {
  FILE *file = fopen(path, "rb");
  if (!file) return re_fail(path, "cannot be read; it is input ", v->name);
  unsigned char start[12];
  char *header = 0, expected[512];
  int status = 2;
  size_t begin = fread(start, 1, 10, file), length = 0;
  if (begin != 10 || memcmp(start, "\x93NUMPY", 6)) { re_fail(path, "expected an .npy file", ""); goto done; }
  length = start[8] | (size_t)start[9] << 8;
  if (start[6] > 1) {
    if (fread(start + 10, 1, 2, file) != 2) { re_fail(path, "the .npy file is cut short", ""); goto done; }
    length |= (size_t)start[10] << 16 | (size_t)start[11] << 24;
  }
  header = length < 1u << 20 ? calloc(1, length + 1) : 0;
  if (!header || fread(header, 1, length, file) != length) { re_fail(path, "the .npy file is cut short", ""); goto done; }
  const char *descr = re_field(header, "'descr'"), *order = re_field(header, "'fortran_order'");
  re_shape_text(expected, sizeof expected, v->rank, v->shape);
  if (*descr != '\'' || descr[1] == '>' || strncmp(descr + 2, v->element + 1, strlen(v->element + 1)) || descr[1 + strlen(v->element)] != '\'') {
    re_fail(path, "expected elements of type ", v->element);
    goto done;
  }
  if (strncmp(order, "False", 5) && v->rank > 1) { re_fail(path, "expected rows first (C order)", ""); goto done; }
  if (!re_same_shape(re_field(header, "'shape'"), v)) { re_fail(path, "expected the shape ", expected); goto done; }
  if (fread(v->at, 1, (size_t)v->bytes, file) != (size_t)v->bytes) { re_fail(path, "the .npy file is cut short", ""); goto done; }
  status = 0;
done:
  free(header);
  fclose(file);
  return status;
}

static int re_write(const char *path, const re_value *v) {
  char shape[512], header[1024];
  re_shape_text(shape, sizeof shape, v->rank, v->shape);
  int used = snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", v->element, shape);
  int total = (10 + used + 1 + 63) / 64 * 64 - 10; /* the elements begin at a multiple of 64 */
  FILE *file = fopen(path, "wb");
  if (!file) return re_fail(path, "cannot be written; it is output ", v->name);
  fwrite("\x93NUMPY\x01\x00", 1, 8, file);
  fputc(total & 255, file);
  fputc(total >> 8, file);
  fwrite(header, 1, (size_t)used, file);
  for (int i = used; i < total - 1; i++) fputc(' ', file);
  fputc('\n', file);
  fwrite(v->at, 1, (size_t)v->bytes, file);
  int bad = ferror(file);
  bad |= fclose(file);
  return bad ? re_fail(path, "cannot be written", "") : 0;
}

static int re_read_weights(const char *path) {
  FILE *file = fopen(path, "rb");
  unsigned char digest[sizeof re_digest];
  if (!file) return re_fail(path, "the weights cannot be read", "");
  int good = fread(digest, 1, sizeof digest, file) == sizeof digest && !memcmp(digest, re_digest, sizeof digest);
  for (size_t i = 0; good && i < sizeof re_weights / sizeof *re_weights; i++)
    good = fread(re_weights[i].at, 1, (size_t)re_weights[i].bytes, file) == (size_t)re_weights[i].bytes;
  fclose(file);
  return good ? 0 : re_fail(path, "expected the weights that belong to this program", "");
}

static void re_usage(const char *program) {
  fprintf(stderr, "usage: %s [-n RUNS] WEIGHTS.bin INPUT.npy... OUTPUT.npy...\n", program);
  for (int side = 0; side < 2; side++)
    for (int i = 0; i < (side ? RE_OUTPUTS : RE_INPUTS); i++) {
      const re_value *v = (side ? re_outputs : re_inputs) + i;
      char shape[512];
      re_shape_text(shape, sizeof shape, v->rank, v->shape);
      fprintf(stderr, "  %s %s: %s %s\n", side ? "output" : "input", v->name, v->element, shape);
    }
}

int main(int count, char **arguments) {
  const char *program = arguments[0];
  long runs = 1;
  if (count > 2 && !strcmp(arguments[1], "-n")) { runs = strtol(arguments[2], 0, 10); arguments += 2; count -= 2; }
  if (count != 2 + RE_INPUTS + RE_OUTPUTS || runs < 1) { re_usage(program); return 2; }
  int status = re_read_weights(arguments[1]);
  for (int i = 0; !status && i < RE_INPUTS; i++) status = re_read(arguments[2 + i], re_inputs + i);
  if (status) return status;
  if (re_prepare()) return re_fail(program, re_kernel, re_failure());
  double least = 0;
  for (long run = 0; run < runs; run++) {
    struct timespec start, end;
    timespec_get(&start, TIME_UTC);
    if (re_infer()) return re_fail(program, re_kernel, re_failure());
    timespec_get(&end, TIME_UTC);
    double seconds = (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec);
    if (!run || seconds < least) least = seconds;
  }
  if (runs > 1) fprintf(stderr, "%.3f ms, the least of %ld runs\n", 1e3 * least, runs);
  for (int i = 0; !status && i < RE_OUTPUTS; i++) status = re_write(arguments[2 + RE_INPUTS + i], re_outputs + i);
  return status;
}
