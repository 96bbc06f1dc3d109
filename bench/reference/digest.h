// What the references share: the hash of kernels/decode/digest.ts, and the digest of an IPv4 packet of a capture.
#include <stdint.h>
#include <string.h>

#define P1 0x9e3779b185ebca87ull
#define P2 0xc2b2ae3d27d4eb4full
#define P3 0x165667b19e3779f9ull
#define P4 0x85ebca77c2b2ae63ull
#define P5 0x27d4eb2f165667c5ull

static inline uint64_t rotl(uint64_t x, int r) { return (x << r) | (x >> (64 - r)); }
static inline uint64_t mix_word(uint64_t h, uint64_t w) { return rotl(h ^ (rotl(w * P2, 31) * P1), 27) * P1 + P4; }
static inline uint64_t avalanche(uint64_t h) {
  h = (h ^ (h >> 33)) * P2;
  h = (h ^ (h >> 29)) * P3;
  return h ^ (h >> 32);
}
static inline uint64_t load64(const uint8_t *p) {
  uint64_t v;
  memcpy(&v, p, 8);
  return v;
}
static inline uint32_t load32(const uint8_t *p) {
  uint32_t v;
  memcpy(&v, p, 4);
  return v;
}
static inline uint32_t be16(const uint8_t *p) { return (uint32_t)p[0] << 8 | p[1]; }

static inline uint64_t digest_ipv4(const uint8_t *ip, const uint8_t *end, uint32_t cover, uint64_t seed) {
  uint32_t total = be16(ip + 2);
  const uint8_t *seen = end < ip + total ? end : ip + total;
  const uint8_t *lim = seen < ip + cover ? seen : ip + cover;
  uint64_t h = mix_word(mix_word(seed, load64(ip + 12)), load64(ip + 2) & 0xff00ffffffffffffull);
  const uint8_t *p = ip + 20, *at = NULL;
  uint64_t keep = 0;
  switch (ip[9]) {
    case 6: at = ip + 36; keep = 0xffffffffffff0000ull; break;
    case 17: at = ip + 20; keep = 0x0000ffffffffffffull; break;
    case 1: at = ip + 20; keep = 0xffffffff0000ffffull; break;
  }
  for (; p + 8 <= lim; p += 8) {
    uint64_t w = load64(p);
    h = mix_word(h, p == at ? w & keep : w);
  }
  if (p < lim) {
    uint64_t w = load64(p) & ((1ull << ((uint64_t)(lim - p) << 3)) - 1);
    h = mix_word(h, p == at ? w & keep : w);
  }
  return avalanche(h);
}
