// The limit that RLI's kernel is measured against: the same work in C. Rows are columns of batches of 2,048, as the kernel has them; a growing table of flows
// with open addressing and whole keys, records in segments, an interpolation buffer, counters per flow with the errors that references tell.
//
//   rli ROWS.bin NS_PER_BYTE BUFFER     (IPv4 rows; bench/rli-speed.ts draws the file)
//
// Prints: CPU nanoseconds, packets answered, flows, sum of delays, checksum over flows.
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROWS 2048
#define SEGMENT_BITS 14
#define SEGMENT (1u << SEGMENT_BITS)
#define REFERENCE (1u << 22)
#define OWN ((1u << 22) | (1u << 23))

typedef struct {
  uint64_t hash, meta, addr[4];
  uint32_t packets, in_gap, last_gap, gaps, serial, pad;
  int64_t sum;
  double squares, errors, last_seen, misses;
  int64_t excess, idle;
} Flow;

typedef struct {
  double time;
  uint32_t flow, wire;
} Waiting;

typedef struct {
  uint32_t count;
  double time[ROWS], delay[ROWS];
  uint64_t hash[ROWS], meta[ROWS], addr[ROWS];
  uint32_t wire[ROWS], flags[ROWS];
} Batch;

static Flow *segments[1 << 14];
static uint64_t *slots;
static uint32_t mask = 4095, count, held, room, gap, have_left, have_before, serial;
static Waiting *buffer;
static double ns_per_byte, left_time, left_delay, before_time, before_delay, miss, level, squares, least = INFINITY, most = -INFINITY, error, misses;
static double steps, strides, left_arrival, left_whole, lowest = INFINITY, lowest_before = INFINITY, turn = -INFINITY, bytes_since, busy_bytes, busy_time, drag_sum, last_time;
static double spread_count, spread_mean, spread_squares;
static uint32_t left_wire, have_last, hurried, busy_gaps;
static int64_t sum, excess_sum, idle_sum;
static uint32_t answered, packets, references, checked;

static inline Flow *flow_at(uint32_t id) { return &segments[id >> SEGMENT_BITS][id & (SEGMENT - 1)]; }

static void grow(void) {
  uint32_t size = (mask + 1) * 2;
  uint64_t *fresh = calloc(size, 8);
  for (uint32_t i = 0; i <= mask; i++) {
    if (!slots[i]) continue;
    uint32_t j = (uint32_t)flow_at((uint32_t)slots[i] - 1)->hash & (size - 1);
    while (fresh[j]) j = (j + 1) & (size - 1);
    fresh[j] = slots[i];
  }
  free(slots);
  slots = fresh;
  mask = size - 1;
}

static uint32_t find(uint64_t hash, uint64_t meta, uint64_t addr) {
  uint64_t tag = hash & 0xffffffff00000000ull;
  uint32_t j = (uint32_t)hash & mask;
  for (uint64_t slot; (slot = slots[j]); j = (j + 1) & mask) {
    if ((slot & 0xffffffff00000000ull) != tag) continue;
    Flow *f = flow_at((uint32_t)slot - 1);
    if (f->meta == meta && f->addr[0] == addr) return (uint32_t)slot - 1;
  }
  uint32_t id = count++;
  if (!segments[id >> SEGMENT_BITS]) segments[id >> SEGMENT_BITS] = calloc(SEGMENT, sizeof(Flow));
  Flow *f = flow_at(id);
  f->hash = hash;
  f->meta = meta;
  f->addr[0] = addr;
  f->serial = serial++;
  slots[j] = tag | (id + 1);
  if (count * 2 > mask) grow();
  return id;
}

static void flush(double time, double delay, double slope, double share, int idle, double told, uint32_t wire) {
  gap++;
  double total = 0, drag = (double)wire * ns_per_byte, missed = told + drag * drag / (held ? held : 1), per_byte = share * ns_per_byte;
  int64_t excess = 0, idle_mask = idle ? -1 : 0;
  int half = share < 1;
  for (uint32_t i = 0; i < held; i++) {
    Waiting *w = &buffer[i];
    double own = (double)w->wire * per_byte;
    double at = slope == 0 ? 0 : fmax(0, w->time - own - time);
    double d = nearbyint(delay + slope * at + own);
    int64_t more = ((int64_t)w->wire - (int64_t)wire) >> half;
    Flow *f = flow_at(w->flow);
    f->packets++;
    if (f->last_gap != gap) {
      f->in_gap = 0;
      f->last_gap = gap;
      f->gaps++;
    }
    f->errors += (double)(2 * f->in_gap + 1) * missed;
    f->in_gap++;
    f->sum += (int64_t)d;
    f->squares += d * d;
    f->misses += missed;
    f->excess += more;
    f->idle += more & idle_mask;
    excess += more;
    sum += (int64_t)d;
    total += d * d;
    if (d < least) least = d;
    if (d > most) most = d;
  }
  squares += total;
  error += (double)held * held * missed;
  misses += held * missed;
  if (held) drag_sum += drag;
  excess_sum += excess;
  idle_sum += excess & idle_mask;
  answered += held;
  held = 0;
}

static void arrived(double arrival, double whole, uint32_t wire) {
  references++;
  double own = (double)wire * ns_per_byte, time = arrival - own, delay = whole - own;
  if (arrival >= turn) {
    lowest_before = lowest;
    lowest = INFINITY;
    turn = arrival + 10e9;
  }
  if (whole < lowest) lowest = whole;
  double at_least = fmin(lowest, lowest_before);
  if (have_left) {
    double step = (delay - left_delay) * (delay - left_delay), now = step;
    if (have_before && time > before_time) {
      double told = before_delay + (delay - before_delay) * (left_time - before_time) / (time - before_time);
      now = (told - left_delay) * (told - left_delay);
      checked++;
    }
    double previous = have_before ? miss : now;
    double stride = have_before ? (delay - before_delay) * (delay - before_delay) : step;
    level = have_before ? level + 0.0625 * (now - level) : now;
    steps = have_before ? steps + 0.0625 * (step - steps) : step;
    strides = have_before ? strides + 0.0625 * (stride - strides) : stride;
    miss = now;
    double ratio = steps > 0 ? strides / steps : 1;
    double missed = (0.5 * (now + previous) + 0.125 * level) * 0.5 / (fmin(4, fmax(1, ratio)) - 0.55);
    double between = arrival - left_arrival;
    int busy = between > 0 && whole - at_least >= between;
    if (busy) {
      busy_gaps++;
      busy_bytes += bytes_since;
      busy_time += between;
    }
    double share = busy ? 0.5 : 1, left_own = (double)left_wire * ns_per_byte;
    double base = left_whole - share * left_own, start = left_arrival - share * left_own;
    double apart = arrival - share * own - start;
    flush(start, base, apart > 0 ? (whole - share * own - base) / apart : 0, share, fmax(whole, left_whole) <= at_least + own, missed, left_wire);
    before_time = left_time;
    before_delay = left_delay;
    have_before = 1;
  } else if (held) {
    flush(time, delay, 0, 1, whole <= at_least + own, delay * delay, wire);
  }
  double off = delay - spread_mean;
  spread_count += 1;
  spread_mean += off / spread_count;
  spread_squares += off * (delay - spread_mean);
  left_arrival = arrival;
  left_whole = whole;
  left_wire = wire;
  left_time = time;
  left_delay = delay;
  have_left = 1;
  bytes_since = 0;
}

static void spill(void) {
  double step = have_before ? left_delay - before_delay : left_delay;
  if (have_left) flush(left_time, left_delay, 0, 1, 0, step * step, left_wire);
  held = 0;
}

static void update(const Batch *b) {
  for (uint32_t i = 0; i < b->count; i++) {
    double time = b->time[i];
    if (have_last && time - last_time + 1000 < 0.5 * (double)b->wire[i] * ns_per_byte) hurried++;
    have_last = 1;
    last_time = time;
    bytes_since += b->wire[i];
    if (b->flags[i] & OWN) {
      if (b->flags[i] & REFERENCE) arrived(time, b->delay[i], b->wire[i]);
      continue;
    }
    packets++;
    uint32_t id = find(b->hash[i], b->meta[i], b->addr[i]);
    if (held == room) spill();
    flow_at(id)->last_seen = time;
    buffer[held].time = time;
    buffer[held].flow = id;
    buffer[held].wire = b->wire[i];
    held++;
  }
}

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  FILE *in = fopen(argv[1], "rb");
  ns_per_byte = atof(argv[2]);
  room = (uint32_t)atoi(argv[3]);
  uint64_t n;
  if (!in || fread(&n, 8, 1, in) != 1) return 2;
  uint64_t batches = (n + ROWS - 1) / ROWS;
  Batch *all = calloc(batches, sizeof(Batch));
  for (uint64_t i = 0; i < n; i++) {
    unsigned char row[64];
    if (fread(row, 64, 1, in) != 1) return 2;
    Batch *b = &all[i / ROWS];
    uint32_t k = b->count++;
    memcpy(&b->time[k], row, 8);
    memcpy(&b->delay[k], row + 8, 8);
    memcpy(&b->hash[k], row + 16, 8);
    memcpy(&b->meta[k], row + 24, 8);
    memcpy(&b->addr[k], row + 32, 8);
    memcpy(&b->wire[k], row + 40, 4);
    memcpy(&b->flags[k], row + 44, 4);
  }
  slots = calloc(mask + 1, 8);
  buffer = malloc(room * sizeof(Waiting));
  struct timespec start, end;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &start);
  for (uint64_t i = 0; i < batches; i++) update(&all[i]);
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
  spill();
  uint64_t check = 0;
  for (uint32_t id = 0; id < count; id++) {
    Flow *f = flow_at(id);
    check += (uint64_t)f->sum * (uint32_t)f->hash + f->packets;
  }
  // What the program keeps besides is used, so that no compiler leaves it out.
  fprintf(stderr, "%u %u %g %g %g %g %lld %lld\n", hurried, busy_gaps, busy_bytes, busy_time, drag_sum, spread_squares, (long long)excess_sum, (long long)idle_sum);
  printf("%lld %u %u %lld %llu\n", (long long)(end.tv_sec - start.tv_sec) * 1000000000ll + (end.tv_nsec - start.tv_nsec), answered, count,
         (long long)sum, (unsigned long long)check);
  return 0;
}
