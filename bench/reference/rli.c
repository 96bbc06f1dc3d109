// The reference for RLI's kernel: the same work in C. Rows are columns of batches of 2,048, as in the kernel. There is a growing flow table with open
// addressing and full keys, records in segments, an interpolation buffer, and counters per flow with the errors estimated from references. The kind of line
// (`backlog` or not) is known at compile time: `trains` is a constant wherever it is used.
//
//   rli ROWS.bin NS_PER_BYTE BUFFER transmission|backlog     (IPv4 rows; bench/rli-speed.ts writes the file)
//
// Prints: CPU nanoseconds, packets answered, flows, sum of delays, checksum over flows of delays and packets, checksum over flows and the total of all bits of
// their errors.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "rli-backlog.h"

#define ROWS 2048
#define SEGMENT_BITS 14
#define SEGMENT (1u << SEGMENT_BITS)
#define REFERENCE (1u << 22)
#define OWN ((1u << 22) | (1u << 23))
#define ALWAYS static inline __attribute__((always_inline))

typedef struct {
  uint64_t hash, meta, addr[4];
  uint32_t packets;
  union {
    uint32_t packets;
    float errors;
  } in_gap;
  uint32_t last_gap, gaps, serial;
  float doubt;
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

// What two references show about the packets between them.
typedef struct {
  double time, delay, slope, per_byte, began, backlog, growth, share, doubt, left_delay, since, ratio, base;
  double drag, minimum, miss, miss_squared, place;
  int seen, half, idle;
} Gap;

static Flow *segments[1 << 14];
static uint64_t *slots;
static uint32_t mask = 4095, count, held, room, gap, have_left, have_before, serial;
static Waiting *buffer;
static double *backlogs;
static double ns_per_byte, left_time, left_delay, left_backlog, before_time, before_delay, before_backlog, miss, level, squares, least = INFINITY, most = -INFINITY, error, misses, doubt;
static double steps, strides, left_arrival, left_whole, lowest = INFINITY, lowest_before = INFINITY, turn = -INFINITY, bytes_since, busy_bytes, busy_time, drag_sum, last_time = -INFINITY;
static double spread_count, spread_mean, spread_squares, apart_before, packets_before, near_time, near_packets;
static uint32_t left_wire, hurried, busy_gaps, gaps;
static int64_t sum, excess_sum, idle_sum;
static uint32_t answered, one_sided, unanswered, packets, references, checked;

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

// Returns the delay of a packet in the gap in whole ns, with its error and the part of the error that all packets of its flow share.
ALWAYS double delay_of(const Gap *g, double at, double own, double backlog, double *off, double *alike) {
  *off = g->miss;
  *alike = 0;
  if (g->seen) {
    double since = at - own - backlog;
    if (since > g->began) {
      const Octave *o = octave_of(backlog);
      double ratio = since >= g->since ? min_of(1, g->ratio * o->ratio) : o->ratio, rough = o->error * backlog;
      *off = g->minimum + rough;
      *alike = o->bias * backlog + 0.35 * rough;
      return nearbyint(g->base + own + ratio * backlog);
    }
    if (g->since > g->began) return nearbyint(g->left_delay + own);
  }
  double line = nearbyint(g->delay + g->slope * max_of(0, at - own - g->time) + own);
  if (g->share == 0) return line;
  double behind = backlog - g->backlog - (g->growth == 0 ? 0 : g->growth * (at - g->began));
  *alike = g->doubt * behind;
  return nearbyint(line + g->share * behind);
}

ALWAYS void flush(const Gap *between, uint32_t wire, const int trains) {
  const Gap g = *between;
  const int64_t idle_mask = g.idle ? -1 : 0;
  double total = 0, errors = 0, squared = 0, alike_sum = 0;
  int64_t excess = 0, delays = 0;
  gap++;
  for (uint32_t i = 0; i < held; i++) {
    const Waiting *w = &buffer[i];
    double own = (double)w->wire * g.per_byte, off = 0, alike = 0;
    double d = trains ? delay_of(&g, w->time, own, backlogs[i], &off, &alike) : nearbyint(g.delay + g.slope * max_of(0, w->time - own - g.time) + own);
    int64_t more = ((int64_t)w->wire - (int64_t)wire) >> g.half;
    Flow *f = flow_at(w->flow);
    f->packets++;
    if (f->last_gap != gap) {
      f->in_gap.packets = 0;
      f->last_gap = gap;
      f->gaps++;
    }
    if (g.place + alike != 0) f->doubt += (float)(g.place + alike);
    if (trains) {
      double before = f->in_gap.errors;
      f->in_gap.errors = (float)(before + off);
      f->errors += (2 * before + off) * off;
      f->misses += off * off;
      errors += off;
      squared += off * off;
      alike_sum += alike;
    } else {
      f->errors += (double)(2 * f->in_gap.packets + 1) * g.miss_squared;
      f->in_gap.packets++;
      f->misses += g.miss_squared;
    }
    f->sum += (int64_t)d;
    f->squares += d * d;
    f->excess += more;
    f->idle += more & idle_mask;
    excess += more;
    delays += (int64_t)d;
    total += d * d;
    least = min_of(d, least);
    most = max_of(d, most);
  }
  sum += delays;
  squares += total;
  error += trains ? errors * errors : (double)held * held * g.miss_squared;
  misses += trains ? squared : held * g.miss_squared;
  doubt += alike_sum;
  if (held) drag_sum += g.drag;
  excess_sum += excess;
  idle_sum += excess & idle_mask;
  answered += held;
  held = 0;
}

// `g` has its line; computes what follows from it, from the number of packets and from the backlogs.
ALWAYS void fill(Gap *g, double missed, uint32_t wire, double share, const int trains) {
  g->drag = (double)wire * ns_per_byte;
  double minimum = g->drag * g->drag / (held ? held : 1);
  g->minimum = sqrt(minimum);
  g->miss_squared = missed + minimum;
  g->miss = sqrt(g->miss_squared);
  g->per_byte = share * ns_per_byte;
  g->half = share < 1;
  g->seen = trains && queue.seen && share == 1;
  int shared = trains && !g->seen && share == 1;
  g->share = shared ? queue.share : 0;
  g->doubt = shared ? sqrt(queue.doubt) : 0;
  g->base = queue.base;
  g->began = have_left ? left_arrival : -INFINITY;
  g->left_delay = have_left ? left_whole - (double)left_wire * ns_per_byte : g->delay;
}

// Estimates the error of the line from what the neighbours of the left reference would have predicted for it.
ALWAYS double missed_by(double time, double whole, double backlog, double share, double weight, double level_share) {
  if (!have_left) return whole * whole;
  double delay = whole - share * backlog, left = left_delay - share * left_backlog, second = before_delay - share * before_backlog;
  double step = (delay - left) * (delay - left), now = step;
  if (have_before && time > before_time) {
    double told = second + (delay - second) * (left_time - before_time) / (time - before_time);
    now = (told - left) * (told - left);
    checked++;
  }
  double previous = have_before ? miss : now, stride = have_before ? (delay - second) * (delay - second) : step;
  level = have_before ? level + weight * (now - level) : now;
  steps = have_before ? steps + weight * (step - steps) : step;
  strides = have_before ? strides + weight * (stride - strides) : stride;
  miss = now;
  double ratio = steps > 0 ? strides / steps : 1;
  return (0.5 * (now + previous) + level_share * level) * (0.5 / (min_of(4, max_of(1, ratio)) - 0.55));
}

// The current reference is between two gaps: learns its distance from the nearer neighbour.
static void learn_near(double apart, double between) {
  if (gaps > 0) {
    double weight = gaps == 1 ? 1 : 0.03125;
    near_time += weight * (min_of(apart, apart_before) - near_time);
    near_packets += weight * (min_of(between, packets_before) - near_packets);
  }
  apart_before = apart;
  packets_before = between;
  gaps = gaps < 2 ? gaps + 1 : 2;
}

ALWAYS void arrived(double arrival, double whole, uint32_t wire, double backlog, const int trains) {
  references++;
  double own = (double)wire * ns_per_byte, time = arrival - own, delay = whole - own, behind = held;
  if (arrival >= turn) {
    lowest_before = lowest;
    lowest = INFINITY;
    turn = arrival + 10e9;
  }
  if (whole < lowest) lowest = whole;
  double at_least = min_of(lowest, lowest_before), share = 1, between = arrival - left_arrival, apart = 0;
  Gap g = {.time = time, .delay = delay, .since = INFINITY};
  if (have_left) {
    int busy = between > 0 && whole - at_least >= between;
    if (busy) {
      busy_gaps++;
      busy_bytes += bytes_since;
      busy_time += between;
      share = 0.5;
    }
    double left_own = (double)left_wire * ns_per_byte;
    g.delay = left_whole - share * left_own;
    g.time = left_arrival - share * left_own;
    double across = arrival - share * own - g.time;
    g.slope = across > 0 ? (whole - share * own - g.delay) / across : 0;
    apart = max_of(0, arrival - whole - (left_arrival - left_whole));
  }
  g.idle = (have_left ? max_of(whole, left_whole) : whole) <= at_least + own;
  if (trains) backlog_to(backlog, delay, at_least - own);
  int shared = trains && !queue.seen;
  double missed = trains ? missed_by(time, delay, backlog, shared ? queue.share : 0, 0.03125, shared ? 0.5 : 0.25) : missed_by(time, delay, 0, 0, 0.0625, 0.125);
  double transmission = share < 1 ? between / (behind + 1) : 0;
  missed += 0.25 * transmission * transmission;
  g.place = 0.3 * transmission;
  double lengthy = apart - 4 * near_time;
  if (gaps > 1 && lengthy > 0 && behind > 4 * near_packets && behind > 8 * packets_before && apart > 8 * apart_before) missed = max_of(missed, 1.0 / 6 * lengthy * lengthy);
  uint32_t beside = have_left ? left_wire : wire;
  fill(&g, missed, beside, share, trains);
  if (trains) {
    g.backlog = have_left ? queue.left : backlog;
    g.growth = have_left && between > 0 ? (backlog - queue.left) / between : 0;
    if (backlog > 0) {
      g.since = time - backlog - 1;
      g.ratio = min_of(1, max_of(0, (delay - queue.base) / backlog)) / octave_of(backlog)->ratio;
    }
  }
  if (have_left || held) flush(&g, beside, trains);
  if (have_left) {
    learn_near(apart, behind);
    before_time = left_time;
    before_delay = left_delay;
    before_backlog = left_backlog;
    have_before = 1;
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
  left_backlog = backlog;
  have_left = 1;
  queue.left = backlog;
  queue.left_delay = delay;
  queue.have_left = 1;
  bytes_since = 0;
}

// No reference followed the waiting packets, so only the left one is used.
ALWAYS void spill(const int trains) {
  if (!held) return;
  if (!have_left) {
    unanswered += held;
    held = 0;
    return;
  }
  one_sided += held;
  double missed = left_delay * left_delay, own = (double)left_wire * ns_per_byte;
  if (have_before) {
    missed = (left_delay - before_delay) * (left_delay - before_delay);
    if (buffer[held - 1].time - left_time > 2 * (left_time - before_time)) missed = max_of(missed, 2 * spread_squares / spread_count);
  }
  Gap g = {.time = left_arrival - own, .delay = left_whole - own, .since = INFINITY, .backlog = queue.left};
  g.idle = left_whole <= min_of(lowest, lowest_before) + own;
  fill(&g, missed, left_wire, 1, trains);
  flush(&g, left_wire, trains);
}

ALWAYS void update(const Batch *b, const int trains) {
  for (uint32_t i = 0; i < b->count; i++) {
    double time = b->time[i], own = (double)b->wire[i] * ns_per_byte;
    if (time - last_time + 1000 < 0.5 * own) hurried++;
    double backlog = trains ? backlog_of(time, own, last_time) : 0;
    last_time = time;
    bytes_since += b->wire[i];
    if (b->flags[i] & OWN) {
      if (b->flags[i] & REFERENCE) arrived(time, b->delay[i], b->wire[i], backlog, trains);
      continue;
    }
    packets++;
    uint32_t id = find(b->hash[i], b->meta[i], b->addr[i]);
    if (held == room) spill(trains);
    flow_at(id)->last_seen = time;
    buffer[held].time = time;
    buffer[held].flow = id;
    buffer[held].wire = b->wire[i];
    if (trains) backlogs[held] = backlog;
    held++;
  }
}

static void __attribute__((noinline)) run_lines(const Batch *all, uint64_t batches) {
  for (uint64_t i = 0; i < batches; i++) update(&all[i], 0);
}

static void __attribute__((noinline)) run_backlogs(const Batch *all, uint64_t batches) {
  backlogs_begin();
  for (uint64_t i = 0; i < batches; i++) update(&all[i], 1);
}

static uint64_t bits_of(double x) {
  uint64_t bits;
  memcpy(&bits, &x, 8);
  return bits;
}

int main(int argc, char **argv) {
  if (argc != 5) return 2;
  FILE *in = fopen(argv[1], "rb");
  ns_per_byte = atof(argv[2]);
  room = (uint32_t)atoi(argv[3]);
  const int trains = strcmp(argv[4], "backlog") == 0;
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
  backlogs = malloc(room * sizeof(double));
  struct timespec start, end;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &start);
  if (trains) run_backlogs(all, batches);
  else run_lines(all, batches);
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
  if (trains) spill(1);
  else spill(0);
  // As src/estimators/rli/tap.ts reads them: the error that all packets share is squared and added.
  uint64_t check = 0, errors = bits_of(squares) + bits_of(error + doubt * doubt) + bits_of(misses + doubt * doubt / (answered ? answered : 1));
  for (uint32_t id = 0; id < count; id++) {
    Flow *f = flow_at(id);
    check += (uint64_t)f->sum * (uint32_t)f->hash + f->packets;
    double alike = (double)f->doubt * f->doubt;
    uint64_t bits = bits_of(f->squares) + bits_of(f->errors + alike) + 3 * bits_of(f->misses + alike / (f->packets ? f->packets : 1));
    errors += bits * (uint32_t)f->hash + f->gaps + (uint64_t)f->excess + 3 * (uint64_t)f->idle;
  }
  // Prints the other state too, so that the compiler does not remove it.
  fprintf(stderr, "%u %u %u %u %g %g %g %g %lld %lld\n", hurried, busy_gaps, one_sided, unanswered, busy_bytes, busy_time, drag_sum, spread_squares, (long long)excess_sum, (long long)idle_sum);
  printf("%lld %u %u %lld %llu %llu\n", (long long)(end.tv_sec - start.tv_sec) * 1000000000ll + (end.tv_nsec - start.tv_nsec), answered, count,
         (long long)sum, (unsigned long long)check, (unsigned long long)errors);
  return 0;
}
