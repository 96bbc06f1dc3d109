// The reference for kernels/sketches/lds.ts: the update loop of LDS in C with the same hashes and cells, in batches of 2,048 rows in cache.
//   lds FILE ROWS COLUMNS K RUNS: FILE contains u64 packets, per row {flow seed, packet seed, threshold} u64, then the columns time f64, digest u64, flow hash u64.
//   lds FILE ROWS COLUMNS K RUNS KEYS: with the list of the heaviest flows (kernels/flows/heavy-flows.ts); prints a checksum of the list. The hashes are the keys.
//   lds FILE ROWS COLUMNS K RUNS KEYS CAPTURE COVER SEED: rows from FILE, packets from a pcap file (Ethernet, IPv4 without options, little-endian ns), with the list (KEYS 0: without).
// Prints the best run's ns per packet and a checksum of the cells; with a capture also one of the list. Cells and list are allocated and cleared before the
// clock starts.
#include <fcntl.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BATCH 2048
#define CHUNK (1 << 18)
#include "digest.h"

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
                   const uint64_t *hash, int n, uint64_t *list) {
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
      uint64_t h = mix(digest[i] ^ packet);
      list[m] = (h & 0xffffffff00000000ull) | (uint64_t)i;
      m += (h & 0xffffffff) < threshold;
    }
    for (int j = 0; j < m; j++) {
      uint32_t i = (uint32_t)list[j];
      uint64_t column = (((mix(hash[i] ^ flow) >> 32) * C) >> 32) + (((list[j] >> 32) * K) >> 32);
      if (column >= C) column -= C;
      cell *c = base + column;
      c->sum += (int64_t)floor(time[i]);
      c->count++;
      c->digest ^= (uint32_t)digest[i];
    }
  }
}

/* The list of the heaviest flows, as in kernels/flows/heavy-flows.ts. */
typedef struct { uint64_t hash, meta, a, b, c, d, packets, bytes, missed; } flow;
typedef struct { flow *records; uint64_t *index, floor; uint32_t count, max, mask; } heavy;
#define TAG 0xffffffff00000000ull

static void heavy_clear(heavy *l) {
  l->count = 0;
  l->floor = 0;
  memset(l->index, 0, ((size_t)l->mask + 1) * 8);
}

static uint32_t heavy_above(const heavy *l, uint64_t value) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < l->count; i++) n += l->records[i].packets + l->records[i].missed > value;
  return n;
}

static void heavy_shed(heavy *l) {
  uint64_t low = l->floor, step = 1, high = low + 1;
  while (heavy_above(l, high) > l->max) {
    low = high;
    step <<= 1;
    high = low + step;
  }
  while (high - low > 1) {
    uint64_t middle = low + (high - low) / 2;
    if (heavy_above(l, middle) > l->max) low = middle;
    else high = middle;
  }
  memset(l->index, 0, ((size_t)l->mask + 1) * 8);
  uint32_t kept = 0;
  for (uint32_t i = 0; i < l->count; i++) {
    if (l->records[i].packets + l->records[i].missed <= high) continue;
    if (kept != i) l->records[kept] = l->records[i];
    uint64_t hash = l->records[kept].hash;
    uint32_t j = (uint32_t)hash & l->mask;
    while (l->index[j]) j = (j + 1) & l->mask;
    l->index[j] = (hash & TAG) | ++kept;
  }
  l->count = kept;
  l->floor = high;
}

static void heavy_update(heavy *l, const uint64_t *hash, const uint64_t *meta, const uint64_t *a, const uint32_t *length, int n) {
  for (int i = 0; i < n; i++) {
    uint64_t h = hash[i];
    uint32_t j = (uint32_t)h & l->mask;
    flow *r = 0;
    for (; l->index[j]; j = (j + 1) & l->mask) {
      if ((l->index[j] ^ h) & TAG) continue;
      flow *known = l->records + ((uint32_t)l->index[j] - 1);
      if (known->meta == meta[i] && known->a == a[i]) {
        r = known;
        break;
      }
    }
    if (!r) {
      r = l->records + l->count;
      *r = (flow){.hash = h, .meta = meta[i], .a = a[i], .missed = l->floor};
      l->index[j] = (h & TAG) | ++l->count;
    }
    r->packets++;
    r->bytes += length[i];
    if (l->count > 2 * l->max) heavy_shed(l);
  }
}

/* Does not depend on the order. */
static uint64_t heavy_checksum(const heavy *l) {
  uint64_t sum = mix(l->floor ^ l->count);
  for (uint32_t i = 0; i < l->count; i++) sum += mix(mix(l->records[i].hash) ^ l->records[i].packets);
  return sum;
}

/* The 5-tuple as in kernels/decode/digest.ts; TCP and UDP have ports. */
static inline uint64_t flow_meta(const uint8_t *ip) {
  uint64_t meta = (uint64_t)ip[9] << 32;
  if (ip[9] == 6 || ip[9] == 17) meta |= 1ull << 60 | (uint64_t)be16(ip + 20) << 16 | be16(ip + 22);
  return meta;
}

/* Packets are collected in batches, because consecutive rows are faster in C too. */
static uint64_t pipeline(cell *cells, heavy *keys, const row *rows, int R, uint64_t C, uint64_t K, const char *file, uint32_t cover,
                         uint64_t seed) {
  static double t[BATCH];
  static uint64_t d[BATCH], h[BATCH], list[BATCH], meta[BATCH], pair[BATCH];
  static uint32_t length[BATCH];
  int fd = open(file, O_RDONLY), n = 0;
  if (fd < 0) exit(1);
  uint8_t *chunk = malloc(2 * CHUNK + 64);
  uint64_t packets = 0, have = 0, pos = 24;
  int64_t origin = 0;
  for (;;) {
    ssize_t got = read(fd, chunk + have, 2 * CHUNK - have > CHUNK ? CHUNK : 2 * CHUNK - have);
    if (got <= 0) break;
    have += (uint64_t)got;
    while (pos + 16 <= have) {
      const uint8_t *r = chunk + pos;
      uint32_t captured = load32(r + 8);
      if (pos + 16 + captured > have) break;
      int64_t at = (int64_t)load32(r) * 1000000000 + load32(r + 4);
      if (packets++ == 0) origin = at;
      const uint8_t *f = r + 16;
      if ((load32(f + 12) & 0xffffff) == 0x450008) {
        t[n] = (double)(at - origin);
        d[n] = digest_ipv4(f + 14, f + captured, cover, seed);
        meta[n] = flow_meta(f + 14);
        pair[n] = __builtin_bswap64(load64(f + 26));
        h[n] = avalanche(mix_word(mix_word(seed + P5, meta[n]), pair[n]));
        length[n] = load32(r + 12);
        if (++n == BATCH) {
          update(cells, rows, R, C, K, t, d, h, n, list);
          if (keys->max) heavy_update(keys, h, meta, pair, length, n);
          n = 0;
        }
      }
      pos += 16 + captured;
    }
    memmove(chunk, chunk + pos, have - pos);
    have -= pos;
    pos = 0;
  }
  update(cells, rows, R, C, K, t, d, h, n, list);
  if (keys->max) heavy_update(keys, h, meta, pair, length, n);
  close(fd);
  free(chunk);
  return packets;
}

int main(int argc, char **argv) {
  if (argc != 6 && argc != 7 && argc != 10) return 2;
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
  static uint64_t list[BATCH];
  static uint64_t meta[BATCH];
  static uint32_t length[BATCH];
  for (int i = 0; i < BATCH; i++) length[i] = 100;
  heavy list_of_keys = {.max = argc > 6 ? (uint32_t)atoi(argv[6]) : 0, .mask = 15};
  while (list_of_keys.mask + 1 < list_of_keys.max << 2) list_of_keys.mask = 2 * list_of_keys.mask + 1;
  list_of_keys.records = malloc((2 * (size_t)list_of_keys.max + 1) * sizeof(flow));
  list_of_keys.index = malloc(((size_t)list_of_keys.mask + 1) * 8);
  double best = 1e300;
  for (int run = 0; run < runs; run++) {
    memset(cells, 0, (size_t)R * C * sizeof *cells);
    double spent = 0;
    heavy_clear(&list_of_keys);
    if (argc == 10) {
      double start = now();
      uint64_t packets =
        pipeline(cells, &list_of_keys, rows, R, C, K, argv[7], (uint32_t)strtoul(argv[8], 0, 10), strtoull(argv[9], 0, 10));
      spent = (now() - start) * (double)n / (double)packets;
      if (spent < best) best = spent;
      continue;
    }
    for (uint64_t from = 0; from < n; from += BATCH) {
      int rowsNow = n - from < BATCH ? (int)(n - from) : BATCH;
      memcpy(t, time + from, rowsNow * 8);
      memcpy(d, digest + from, rowsNow * 8);
      memcpy(h, hash + from, rowsNow * 8);
      double start = now();
      update(cells, rows, R, C, K, t, d, h, rowsNow, list);
      if (argc == 7) heavy_update(&list_of_keys, h, meta, h, length, rowsNow);
      spent += now() - start;
    }
    if (spent < best) best = spent;
  }
  uint64_t sum = 0;
  const uint64_t *words = (const uint64_t *)cells;
  for (size_t i = 0; i < (size_t)R * C * 2; i++) sum = mix(sum ^ words[i]);
  double ns = best / (double)n;
  if (list_of_keys.count > list_of_keys.max) heavy_shed(&list_of_keys);
  uint64_t keys = heavy_checksum(&list_of_keys);
  if (argc == 6) printf("%.3f %016llx\n", ns, (unsigned long long)sum);
  else if (argc == 7) printf("%.3f %016llx\n", ns, (unsigned long long)keys);
  else printf("%.3f %016llx %016llx\n", ns, (unsigned long long)sum, (unsigned long long)keys);
  return 0;
}
