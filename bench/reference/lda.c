// The reference for the LDA kernels: the same work in C with the same hashes, so that the cells are equal.
//
//   lda update ROWS.bin BANKS ROWS SEED LIMIT T0 T1 T2 REPEATS   decoded rows: f64 times, then u64 digests
//   lda pipeline FILE.pcap BANKS ROWS SEED LIMIT T0 T1 T2 COVER DIGEST_SEED   pcap, Ethernet, IPv4 without options, little-endian ns
//
// Prints: packets, CPU nanoseconds, checksum of the cells.
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "digest.h"

#define CHUNK (1 << 18)

typedef struct {
  int64_t sum;
  uint32_t count;
  uint32_t digest;
} Cell;

typedef struct {
  Cell *cells;
  uint64_t rows, seed, limit, t0, t1, t2;
} Lda;

static inline void lda_add(const Lda *l, uint64_t digest, int64_t time) {
  uint64_t h = avalanche((digest ^ l->seed) * P1 + P5);
  uint64_t g = h >> 32;
  if (g >= l->limit) return;
  uint64_t bank = (g < l->t0) + (g < l->t1) + (g < l->t2);
  Cell *c = &l->cells[bank * l->rows + (((h & 0xffffffff) * l->rows) >> 32)];
  c->sum += time;
  c->count++;
  c->digest ^= (uint32_t)digest;
}

static uint64_t cpu_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static void report(const Lda *l, uint64_t cells, uint64_t packets, uint64_t ns) {
  uint64_t check = 0;
  for (uint64_t i = 0; i < cells; i++) {
    const Cell *c = &l->cells[i];
    check = mix_word(mix_word(check, (uint64_t)c->sum), (uint64_t)c->digest << 32 | c->count);
  }
  printf("%llu %llu %016llx\n", (unsigned long long)packets, (unsigned long long)ns, (unsigned long long)check);
}

static void update(const Lda *l, const double *time, const uint64_t *digest, uint64_t n) {
  for (uint64_t i = 0; i < n; i++) lda_add(l, digest[i], (int64_t)time[i]);
}

static uint64_t pipeline(const Lda *l, const char *file, uint32_t cover, uint64_t seed) {
  int fd = open(file, O_RDONLY);
  if (fd < 0) exit(1);
  uint8_t *chunk = malloc(2 * CHUNK + 64);
  uint64_t packets = 0, have = 0;
  int64_t origin = 0;
  uint64_t pos = 24;
  for (;;) {
    ssize_t got = read(fd, chunk + have, 2 * CHUNK - have > CHUNK ? CHUNK : 2 * CHUNK - have);
    if (got <= 0) break;
    have += (uint64_t)got;
    while (pos + 16 <= have) {
      const uint8_t *r = chunk + pos;
      uint32_t captured = load32(r + 8);
      if (pos + 16 + captured > have) break;
      int64_t at = (int64_t)load32(r) * 1000000000 + load32(r + 4);
      if (packets == 0) origin = at;
      const uint8_t *f = r + 16;
      packets++;
      if ((load32(f + 12) & 0xffffff) == 0x450008) {
        lda_add(l, digest_ipv4(f + 14, f + captured, cover, seed), at - origin);
      }
      pos += 16 + captured;
    }
    memmove(chunk, chunk + pos, have - pos);
    have -= pos;
    pos = 0;
  }
  close(fd);
  free(chunk);
  return packets;
}

int main(int argc, char **argv) {
  if (argc < 10) return 2;
  uint64_t banks = strtoull(argv[3], 0, 0);
  Lda l;
  l.rows = strtoull(argv[4], 0, 0);
  l.seed = strtoull(argv[5], 0, 0);
  l.limit = strtoull(argv[6], 0, 0);
  l.t0 = strtoull(argv[7], 0, 0);
  l.t1 = strtoull(argv[8], 0, 0);
  l.t2 = strtoull(argv[9], 0, 0);
  l.cells = calloc(banks * l.rows, sizeof(Cell));
  if (strcmp(argv[1], "update") == 0) {
    FILE *f = fopen(argv[2], "rb");
    if (!f) return 1;
    fseek(f, 0, SEEK_END);
    uint64_t n = (uint64_t)ftell(f) / 16;
    rewind(f);
    double *time = malloc(8 * n);
    uint64_t *digest = malloc(8 * n);
    if (fread(time, 8, n, f) != n || fread(digest, 8, n, f) != n) return 1;
    uint64_t repeats = strtoull(argv[10], 0, 0);
    uint64_t begin = cpu_ns();
    for (uint64_t i = 0; i < repeats; i++) {
      update(&l, time, digest, n);
      __asm__ volatile("" ::: "memory");
    }
    report(&l, banks * l.rows, n * repeats, cpu_ns() - begin);
    return 0;
  }
  uint64_t begin = cpu_ns();
  uint64_t packets = pipeline(&l, argv[2], (uint32_t)strtoull(argv[10], 0, 0), strtoull(argv[11], 0, 0));
  report(&l, banks * l.rows, packets, cpu_ns() - begin);
  return 0;
}
