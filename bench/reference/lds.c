// The update loop of LDS in C, to judge kernels/lds.ts by: same hashes, same cells, batches of 2,048 rows in cache.
//   lds FILE ROWS COLUMNS K RUNS: FILE holds u64 packets, per row {flow seed, packet seed, threshold} u64, then the columns time f64, digest u64, flow hash u64.
// Prints the best run's ns per packet and a checksum of the cells.
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BATCH 2048

typedef struct { int64_t sum; uint32_t count, digest; } cell;
typedef struct { uint64_t flow, packet, threshold; } row;

static inline uint64_t mix(uint64_t h) {
  h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9ull;
  h = (h ^ (h >> 27)) * 0x94d049bb133111ebull;
  return h ^ (h >> 31);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return t.tv_sec * 1e9 + t.tv_nsec;
}

static void update(cell *cells, const row *rows, int R, uint64_t C, uint64_t K, const double *time, const uint64_t *digest,
                   const uint64_t *hash, int n, uint32_t *list) {
  for (int r = 0; r < R; r++) {
    cell *base = cells + (size_t)r * C;
    const uint64_t flow = rows[r].flow, packet = rows[r].packet, threshold = rows[r].threshold;
    if (K == 1 && threshold >> 32) {
      for (int i = 0; i < n; i++) {
        cell *c = base + (((mix(hash[i] ^ flow) >> 32) * C) >> 32);
        c->sum += (int64_t)floor(time[i]);
        c->count++;
        c->digest ^= (uint32_t)digest[i];
      }
      continue;
    }
    int m = 0;
    for (int i = 0; i < n; i++) {
      list[m] = i;
      m += (mix(digest[i] ^ packet) & 0xffffffff) < threshold;
    }
    for (int j = 0; j < m; j++) {
      int i = list[j];
      uint64_t column = (((mix(hash[i] ^ flow) >> 32) * C) >> 32) + (((mix(digest[i] ^ packet) >> 32) * K) >> 32);
      if (column >= C) column -= C;
      cell *c = base + column;
      c->sum += (int64_t)floor(time[i]);
      c->count++;
      c->digest ^= (uint32_t)digest[i];
    }
  }
}

int main(int argc, char **argv) {
  if (argc != 6) return 2;
  int R = atoi(argv[2]), runs = atoi(argv[5]);
  uint64_t C = strtoull(argv[3], 0, 10), K = strtoull(argv[4], 0, 10), n;
  FILE *f = fopen(argv[1], "rb");
  if (!f || fread(&n, 8, 1, f) != 1) return 1;
  row *rows = malloc(R * sizeof *rows);
  double *time = malloc(n * 8);
  uint64_t *digest = malloc(n * 8), *hash = malloc(n * 8);
  if (fread(rows, sizeof *rows, R, f) != (size_t)R || fread(time, 8, n, f) != n || fread(digest, 8, n, f) != n ||
      fread(hash, 8, n, f) != n)
    return 1;
  cell *cells = malloc((size_t)R * C * sizeof *cells);
  static double t[BATCH];
  static uint64_t d[BATCH], h[BATCH];
  static uint32_t list[BATCH];
  double best = 1e300;
  for (int run = 0; run < runs; run++) {
    memset(cells, 0, (size_t)R * C * sizeof *cells);
    double spent = 0;
    for (uint64_t from = 0; from < n; from += BATCH) {
      int rowsNow = n - from < BATCH ? (int)(n - from) : BATCH;
      memcpy(t, time + from, rowsNow * 8);
      memcpy(d, digest + from, rowsNow * 8);
      memcpy(h, hash + from, rowsNow * 8);
      double start = now();
      update(cells, rows, R, C, K, t, d, h, rowsNow, list);
      spent += now() - start;
    }
    if (spent < best) best = spent;
  }
  uint64_t sum = 0;
  const uint64_t *words = (const uint64_t *)cells;
  for (size_t i = 0; i < (size_t)R * C * 2; i++) sum = mix(sum ^ words[i]);
  printf("%.3f %016llx\n", best / (double)n, (unsigned long long)sum);
  return 0;
}
