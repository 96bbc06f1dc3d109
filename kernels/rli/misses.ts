// Measures the error of RLI's line with the references themselves: each is predicted from its two neighbours (rli-ton has no intervals; these are ours). The
// squared miss, scaled from the neighbours' distance to a gap's (`nearer`), stands for every packet of the gap behind it.

/** Weight of the newest miss in the running average, and weight of that average in a gap. */
const LEVEL_WEIGHT: f64 = 0.0625;
const LEVEL_SHARE: f64 = 0.125;

@unmanaged
export class Misses {
  have: u32; //       a left reference is known
  haveBefore: u32; // and one before it
  weight: f64; //     of the newest miss in the level
  levelShare: f64; // of the level in a gap
  leftTime: f64; //   when the left reference's transmission began
  leftDelay: f64; //  without transmission
  beforeTime: f64; // the reference before the left one
  beforeDelay: f64;
  leftBacklog: f64; // (kernels/rli/backlog.ts)
  beforeBacklog: f64;
  miss: f64; //       squared, of the last reference predicted
  level: f64; //      its moving average
  steps: f64; //      the same of squared differences of neighbours
  strides: f64; //    and of those two apart
  spreadCount: f64; // delays of references so far: number, mean, sum of squares about it
  spreadMean: f64;
  spreadSquares: f64;
}

export function missesNew(): Misses {
  const p = heap.alloc(offsetof<Misses>());
  memory.fill(p, 0, offsetof<Misses>());
  missesLevel(changetype<Misses>(p), LEVEL_WEIGHT, LEVEL_SHARE);
  return changetype<Misses>(p);
}

export function missesLevel(m: Misses, weight: f64, share: f64): void {
  m.weight = weight;
  m.levelShare = share;
}

/** Resets the state: the stream does not continue from where it was. */
export function missesForget(m: Misses): void {
  const weight = m.weight;
  const share = m.levelShare;
  memory.fill(changetype<usize>(m), 0, offsetof<Misses>());
  missesLevel(m, weight, share);
}

/**
 * Returns the mean squared error of a line over a gap, relative to the squared miss of a point predicted from neighbours one gap away on both sides. It follows
 * from how fast squared differences of delays grow with distance, as d^2H. With D = 2^2H, the ratio of squared differences two apart to those of neighbours,
 * (2 / ((2H + 1)(2H + 2)) - 1/6) / (1 - D/4),  which is 0.5 / (D - 0.55) within 4 % for 0 <= H <= 1:
 * 1.11 if neighbours are uncorrelated, 1/3 for a random walk, 0.14 if delays rise and fall smoothly.
 */
function nearer(m: Misses): f64 {
  const ratio = m.steps > 0 ? m.strides / m.steps : 1;
  return 0.5 / (min(4.0, max(1.0, ratio)) - 0.55);
}

/**
 * Handles a reference that has arrived: returns the expected squared error of the line's answers in the gap that it ends. `level`: error of the left reference
 * alone (RLI-L). The predicted value is the delay without the `share` of its backlog, because the line is fitted to that.
 */
export function missesTo(m: Misses, time: f64, whole: f64, backlog: f64, share: f64, level: u32): f64 {
  // Before the first reference only the right one is known, and nothing about how delays change.
  if (m.have == 0) return whole * whole;
  const delay = whole - share * backlog;
  const left = m.leftDelay - share * m.leftBacklog;
  const second = m.beforeDelay - share * m.beforeBacklog;
  const step = (delay - left) * (delay - left);
  let now = step;
  if (m.haveBefore != 0 && time > m.beforeTime) {
    // Predict the left reference's delay from its neighbours, to test the method on the wider gap.
    const predicted = second + ((delay - second) * (m.leftTime - m.beforeTime)) / (time - m.beforeTime);
    if (level == 0) {
      now = (predicted - left) * (predicted - left);
    }
  }
  // A single miss is unreliable: it is averaged with the previous one, and a share of the running average keeps luck from looking like certainty.
  const before = m.haveBefore != 0 ? m.miss : now;
  m.level = m.haveBefore != 0 ? m.level + m.weight * (now - m.level) : now;
  m.miss = now;
  const stride = m.haveBefore != 0 ? (delay - second) * (delay - second) : step;
  m.steps = m.haveBefore != 0 ? m.steps + m.weight * (step - m.steps) : step;
  m.strides = m.haveBefore != 0 ? m.strides + m.weight * (stride - m.strides) : stride;
  const miss = 0.5 * (now + before) + m.levelShare * m.level;
  return level == 0 ? miss * nearer(m) : miss;
}

/** Makes that reference the left one. */
export function missesStep(m: Misses, time: f64, delay: f64, backlog: f64): void {
  if (m.have != 0) {
    m.beforeTime = m.leftTime;
    m.beforeDelay = m.leftDelay;
    m.beforeBacklog = m.leftBacklog;
    m.haveBefore = 1;
  }
  const off = delay - m.spreadMean;
  m.spreadCount += 1;
  m.spreadMean += off / m.spreadCount;
  m.spreadSquares += off * (delay - m.spreadMean);
  m.leftTime = time;
  m.leftDelay = delay;
  m.leftBacklog = backlog;
  m.have = 1;
}

/**
 * The same for packets up to `last` that only the left reference answers for. Their error is that of the last step between references; after a longer time than
 * that step took, that of any two delays. With only one reference the whole delay counts as error.
 */
export function missesLeft(m: Misses, last: f64): f64 {
  if (m.haveBefore == 0) return m.leftDelay * m.leftDelay;
  const miss = (m.leftDelay - m.beforeDelay) * (m.leftDelay - m.beforeDelay);
  if (last - m.leftTime > 2 * (m.leftTime - m.beforeTime)) return max(miss, (2 * m.spreadSquares) / m.spreadCount);
  return miss;
}
