// The reference for COLATE's update kernel: the same work in C with the same hashes, so that the cells are equal.
//
//   colate ROWS.bin N M VECTORS MULTIPLIER UNIT SLOTS.bin REPEATS
//
// ROWS.bin: f64 times, then u64 digests, then u64 flow hashes. SLOTS.bin: u64 upper edges of the vectors, then M x VECTORS slots of {u64 seed, u32 first cell,
// u32 cells}. Prints: packets, CPU nanoseconds, checksum of the cells, packets in the fullest cell.
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "digest.h"

typedef struct {
  int64_t sum;
  uint32_t count;
  uint32_t digest;
} Cell;

typedef struct {
  uint64_t seed;
  uint32_t first;
  uint32_t cells;
} Slot;

static uint64_t cpu_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static uint32_t update(Cell *cells, const Slot *slots, const uint64_t *edges, uint64_t m, uint64_t multiplier, double per_unit,
                       const double *time, const uint64_t *digest, const uint64_t *flow, uint64_t n, uint32_t most) {
  const uint64_t e0 = edges[0], e1 = edges[1], e2 = edges[2];
  for (uint64_t i = 0; i < n; i++) {
    uint64_t d = digest[i];
    uint64_t x = ((d * multiplier) >> 32) * m;
    uint64_t r = x & 0xffffffff;
    uint64_t v = (uint64_t)(r >= e0) + (uint64_t)(r >= e1) + (uint64_t)(r >= e2);
    const Slot *slot = &slots[v * m + (x >> 32)];
    uint64_t h = avalanche((flow[i] ^ slot->seed) * P1 + P5);
    Cell *c = &cells[slot->first + (uint32_t)(((h >> 32) * slot->cells) >> 32)];
    c->sum += (int64_t)floor(time[i] * per_unit);
    c->digest ^= (uint32_t)d;
    if (++c->count > most) most = c->count;
  }
  return most;
}

static void *read_all(FILE *f, uint64_t bytes) {
  void *p = malloc(bytes + 64);
  if (fread(p, 1, bytes, f) != bytes) exit(1);
  return p;
}

int main(int argc, char **argv) {
  if (argc < 9) return 2;
  FILE *f = fopen(argv[1], "rb");
  if (!f) return 1;
  fseek(f, 0, SEEK_END);
  uint64_t rows = (uint64_t)ftell(f) / 24;
  rewind(f);
  double *time = read_all(f, 8 * rows);
  uint64_t *digest = read_all(f, 8 * rows);
  uint64_t *flow = read_all(f, 8 * rows);
  fclose(f);
  uint64_t n = strtoull(argv[2], 0, 0), m = strtoull(argv[3], 0, 0), vectors = strtoull(argv[4], 0, 0);
  uint64_t multiplier = strtoull(argv[5], 0, 0) | 1;
  double per_unit = 1.0 / strtod(argv[6], 0);
  f = fopen(argv[7], "rb");
  if (!f) return 1;
  uint64_t edges[4] = {1ull << 32, 1ull << 32, 1ull << 32, 1ull << 32};
  if (vectors > 4 || fread(edges, 8, vectors, f) != vectors) return 1;
  Slot *slots = read_all(f, sizeof(Slot) * m * vectors);
  fclose(f);
  uint64_t repeats = strtoull(argv[8], 0, 0);
  Cell *cells = calloc(n, sizeof(Cell));
  memset(cells, 0, n * sizeof(Cell));
  uint32_t most = 0;
  uint64_t begin = cpu_ns();
  for (uint64_t i = 0; i < repeats; i++) {
    most = update(cells, slots, edges, m, multiplier, per_unit, time, digest, flow, rows, most);
    __asm__ volatile("" ::: "memory");
  }
  uint64_t ns = cpu_ns() - begin;
  uint64_t check = 0;
  for (uint64_t i = 0; i < n; i++) {
    check = mix_word(mix_word(check, (uint64_t)cells[i].sum), (uint64_t)cells[i].digest << 32 | cells[i].count);
  }
  printf("%llu %llu %016llx %u\n", (unsigned long long)(rows * repeats), (unsigned long long)ns, (unsigned long long)check, most);
  return 0;
}
