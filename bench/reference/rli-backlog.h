// The backlogs of rli.c: how long the link had been sending without a pause before each packet, and what references show of how much of that is wait
// (kernels/rli/backlog.ts says why; here is the same arithmetic, in the same order, as C is written).
#include <math.h>
#include <stdint.h>

#define KEPT (1 - 1.0 / 1024)
#define SLACK_KEPT (1 - 1.0 / 4096)
#define PRIOR 0.5
#define PRIOR_VARIANCE 0.0625
#define OCTAVES 44

typedef struct {
  double count, sum, squares, ratio, bias, error;
} Octave;

static Octave octaves[OCTAVES];
static struct {
  double since, slack, left, left_delay, count, backlogs, products, delays, share, doubt, base, idles, idle_waits, waits, unseen;
  int have_left, seen;
} queue;

// fmin and fmax are calls, for the sake of NaN; these are one instruction.
static inline double max_of(double a, double b) { return a > b ? a : b; }
static inline double min_of(double a, double b) { return a < b ? a : b; }

static inline const Octave *octave_of(double backlog) {
  uint64_t whole = (uint64_t)(int64_t)backlog;
  uint32_t bits = whole ? 64 - (uint32_t)__builtin_clzll(whole) : 0;
  return &octaves[bits < OCTAVES - 2 ? bits : OCTAVES - 2];
}

static void settle(uint32_t k) {
  Octave *q = &octaves[k];
  double n = q->count + 0.25 * (q[-1].count + q[1].count) + 1;
  double mean = (q->sum + 0.25 * (q[-1].sum + q[1].sum) + PRIOR) / n;
  double squares = (q->squares + 0.25 * (q[-1].squares + q[1].squares) + 1.0 / 3) / n;
  double variance = max_of(0, squares - mean * mean);
  q->ratio = mean;
  q->bias = sqrt(variance / n);
  q->error = sqrt(variance);
}

static void backlogs_begin(void) {
  for (uint32_t k = 1; k < OCTAVES - 1; k++) settle(k);
  queue.share = PRIOR;
  queue.doubt = PRIOR_VARIANCE;
}

// `last`: of the packet before, -infinity where there is none.
static inline double backlog_of(double time, double own, double last) {
  double began = time - own, pause = began - last;
  queue.slack = last == -INFINITY ? 0 : max_of(-pause, queue.slack * SLACK_KEPT);
  if (pause > queue.slack + 1) queue.since = began;
  return max_of(0, began - queue.since);
}

static void learn(double backlog, double wait) {
  if (backlog < 1) return;
  double ratio = min_of(1, max_of(0, wait / backlog));
  Octave *q = (Octave *)octave_of(backlog);
  double fade = q->count >= 256 ? 0.5 : 1;
  q->count = q->count * fade + 1;
  q->sum = q->sum * fade + ratio;
  q->squares = q->squares * fade + ratio * ratio;
  uint32_t k = (uint32_t)(q - octaves), last = k + 1 < OCTAVES - 2 ? k + 1 : OCTAVES - 2;
  for (uint32_t near = k > 1 ? k - 1 : 1; near <= last; near++) settle(near);
}

static void backlog_to(double backlog, double delay, double minimum) {
  if (backlog <= queue.slack) {
    queue.idles = queue.idles * KEPT + 1;
    queue.idle_waits = queue.idle_waits * KEPT + delay - minimum;
  }
  queue.base = minimum + (queue.idles > 0 ? queue.idle_waits / queue.idles : 0);
  queue.waits = queue.waits * KEPT + max_of(0, delay - queue.base);
  queue.unseen = queue.unseen * KEPT + max_of(0, delay - queue.base - backlog - queue.slack - 1);
  queue.seen = queue.unseen <= 0.01 * queue.waits;
  learn(backlog, delay - queue.base);
  if (!queue.have_left) return;
  double growth = backlog - queue.left, rise = delay - queue.left_delay;
  queue.count = queue.count * KEPT + 1;
  queue.backlogs = queue.backlogs * KEPT + growth * growth;
  queue.products = queue.products * KEPT + growth * rise;
  queue.delays = queue.delays * KEPT + rise * rise;
  double slope = queue.backlogs > 0 ? queue.products / queue.backlogs : PRIOR;
  double rest = max_of(0, queue.delays - slope * queue.products) / queue.count;
  double prior = rest / PRIOR_VARIANCE, weight = queue.backlogs + prior;
  queue.share = weight > 0 ? min_of(1, max_of(0, (queue.products + prior * PRIOR) / weight)) : PRIOR;
  queue.doubt = weight > 0 ? rest / weight : PRIOR_VARIANCE;
}
