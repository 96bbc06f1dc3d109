/*
 * SVBF insert and look-up in C: the reference for kernels/maple/svbf.ts (bench/maple.ts compiles and runs this).
 * usage: svbf PACKETS BITS_PER_PACKET HASHES GROUPS ROUNDS; prints the best insert and look-up rates in packets per second, and the share of Multi-Match.
 */
#define _POSIX_C_SOURCE 199309L
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const uint64_t P1 = 0x9e3779b185ebca87u, P2 = 0xc2b2ae3d27d4eb4fu, P3 = 0x165667b19e3779f9u, P5 = 0x27d4eb2f165667c5u;

static inline uint64_t rehash(uint64_t h, uint64_t seed) {
  h = (h ^ seed) * P1 + P5;
  h = (h ^ (h >> 33)) * P2;
  h = (h ^ (h >> 29)) * P3;
  return h ^ (h >> 32);
}

static void insert(uint8_t *bits, uint32_t m, uint32_t hashes, uint64_t seed, const uint64_t *keys, const uint16_t *codes, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    uint64_t h = rehash(keys[i], seed);
    uint32_t x = (uint32_t)h, y = (uint32_t)(h >> 32) | 1;
    for (uint32_t j = 0; j < hashes; j++) {
      uint32_t at = (uint32_t)(((uint64_t)x * m) >> 32) + codes[i];
      at = at >= m ? at - m : at;
      bits[at >> 3] |= (uint8_t)(1u << (at & 7));
      x += y;
      y += j;
    }
  }
}

static uint32_t lookup(const uint8_t *bits, uint32_t m, uint32_t hashes, uint64_t seed, uint32_t groups, const uint32_t *counts,
                       const uint64_t *keys, uint32_t n, uint32_t *out) {
  const uint64_t mask = (1ull << groups) - 1;
  uint32_t multi = 0;
  for (uint32_t i = 0; i < n; i++) {
    uint64_t h = rehash(keys[i], seed), all = mask;
    uint32_t x = (uint32_t)h, y = (uint32_t)(h >> 32) | 1;
    for (uint32_t j = 0; j < hashes; j++) {
      uint32_t at = (uint32_t)(((uint64_t)x * m) >> 32);
      uint64_t word;
      memcpy(&word, bits + (at >> 3), 8);
      all &= word >> (at & 7);
      x += y;
      y += j;
    }
    uint32_t first = all ? (uint32_t)__builtin_ctzll(all) : 0, best = first;
    if (__builtin_popcountll(all) == 1) {
      out[2 * i] = first | 1u << 16;
      out[2 * i + 1] = first | first << 16;
    } else if (all == 0) out[2 * i] = out[2 * i + 1] = 0;
    else {
      multi++;
      uint32_t most = 0;
      for (uint64_t c = all; c; c &= c - 1) {
        uint32_t group = (uint32_t)__builtin_ctzll(c);
        if (counts[group] + 1 > most) most = counts[group] + 1, best = group;
      }
      out[2 * i] = best | 2u << 16;
      out[2 * i + 1] = first | (63 - (uint32_t)__builtin_clzll(all)) << 16;
    }
  }
  return multi;
}

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}

int main(int argc, char **argv) {
  if (argc != 6) return 2;
  uint32_t n = (uint32_t)atoi(argv[1]), hashes = (uint32_t)atoi(argv[3]), groups = (uint32_t)atoi(argv[4]), rounds = (uint32_t)atoi(argv[5]);
  uint32_t m = (uint32_t)(n * atof(argv[2])) / 8 * 8;
  uint64_t *keys = malloc(8ull * n);
  uint16_t *codes = malloc(2ull * n);
  uint32_t *counts = calloc(groups, 4), *out = malloc(8ull * n);
  uint8_t *bits = malloc(m / 8 + 32);
  uint64_t state = 1;
  for (uint32_t i = 0; i < n; i++) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    keys[i] = rehash(state, 7);
    codes[i] = (uint16_t)((keys[i] >> 20) % groups);
    counts[codes[i]]++;
  }
  double bestInsert = 1e9, bestLookup = 1e9;
  uint32_t multi = 0;
  for (uint32_t r = 0; r < rounds; r++) {
    memset(bits, 0, m / 8 + 32);
    double t = seconds();
    insert(bits, m, hashes, 99, keys, codes, n);
    t = seconds() - t;
    if (t < bestInsert) bestInsert = t;
    memcpy(bits + m / 8, bits, 16);
    t = seconds();
    multi = lookup(bits, m, hashes, 99, groups, counts, keys, n, out);
    t = seconds() - t;
    if (t < bestLookup) bestLookup = t;
  }
  printf("%.0f %.0f %.6f\n", n / bestInsert, n / bestLookup, (double)multi / n);
  return 0;
}
