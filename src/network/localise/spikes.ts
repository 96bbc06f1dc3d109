/**
 * Spikes in one series of epoch values (mean delay, or share lost): when it left its baseline, and when it returned.
 *
 * A spike begins when the score of (value - one standard error) reaches `enter` and the rise is large enough; a slightly lower score suffices if three or five
 * consecutive epochs show it, the lower the shorter the series' own bursts are. It extends back and forth over epochs above `leave` (hysteresis). `enter` is
 * slightly higher if the baseline has few epochs.
 */
import { UsageError } from "../../base/errors.ts";
import { entryAt } from "../../base/lists.ts";
import { type Baseline, baselineOf, fewEpochs, scoreOf } from "./baseline.ts";

export interface SpikeOptions {
  /** Score that begins a spike, for a baseline of very many epochs. */
  readonly enter?: number;
  /** Score below which it ends. */
  readonly leave?: number;
  /** Number of epochs of the baseline: around each epoch when all are known, before it in a stream. */
  readonly windowEpochs?: number;
  /** Minimum number of epochs for a verdict. */
  readonly minEpochs?: number;
  /** Minimum rise of a spike: in the unit of the series (delay: nanoseconds), and as a share of the baseline's median. */
  readonly minEffect?: number;
  readonly minEffectShare?: number;
  /** Lower limit of a baseline's scale: the resolution of the values. */
  readonly resolution?: number;
}

export type SpikeSettings = Required<SpikeOptions>;

export function spikeSettings(options: SpikeOptions = {}): SpikeSettings {
  const settings = {
    enter: 1.9,
    leave: 1.3,
    windowEpochs: 300,
    minEpochs: 8,
    minEffect: 1000,
    minEffectShare: 0.05,
    resolution: 1,
    ...options,
  };
  if (!(settings.leave > 0 && settings.enter >= settings.leave))
    throw new UsageError("bad-parameter", "a spike must begin at a score not below the one where it ends");
  if (!(settings.minEpochs >= 3 && settings.windowEpochs >= settings.minEpochs))
    throw new UsageError(
      "bad-parameter",
      "the window needs at least minEpochs epochs, and minEpochs is 3 or more",
    );
  return settings;
}

/**
 * This many consecutive epochs reduce the required score by this much, at the same false-alarm rate: `lasting` whatever the series' memory, `fleeting` in
 * addition if consecutive epochs are independent, decreasing up to a correlation of 0.5.
 */
const SUSTAINED = [
  { epochs: 1, lasting: 0, fleeting: 0 },
  { epochs: 3, lasting: 0.3, fleeting: 0.4 },
  { epochs: 5, lasting: 0.45, fleeting: 0.6 },
] as const;
const LONGEST_RUN = 5;
const LARGEST_DELAY_NS = 1e9;

/** One epoch of a series. `value` is null without an answer. */
export interface EpochValue {
  readonly startNs: number;
  readonly endNs: number;
  readonly value: number | null;
  /** Standard error of the value. */
  readonly error: number;
}

export interface SeriesSpike {
  readonly startNs: number;
  endNs: number;
  /** Indices of its first and last epoch in the series. */
  readonly first: number;
  last: number;
  peak: number;
  /** Its rarity, as the score of a single epoch that would be as rare. */
  score: number;
  /** Baseline where it began. */
  readonly baseline: Baseline;
  /** False while the last epoch of the series is still part of it. */
  closed: boolean;
}

/** Follows one series epoch by epoch; the caller supplies the baseline, so that streams and whole files share the rule. */
class SpikeTracker {
  readonly #settings: SpikeSettings;
  readonly spikes: SeriesSpike[] = [];
  /** The current run of epochs above `leave`, with the index of each. */
  readonly #run: { epoch: EpochValue; value: number; index: number; score: number }[] = [];
  #index = -1;

  constructor(settings: SpikeSettings) {
    this.#settings = settings;
  }

  push(epoch: EpochValue, baseline: Baseline | null): void {
    this.#index++;
    const open = this.#open;
    // An epoch without an answer neither ends a spike nor begins one.
    if (epoch.value === null || !baseline) return;
    // A rise that outlasts half a window is a new normal state (a reroute): from then on the moving baseline judges.
    const held = open && this.#index - open.first <= this.#settings.windowEpochs / 2;
    const judged = held ? open.baseline : baseline;
    if (scoreOf(judged, epoch.value) < this.#settings.leave) {
      if (open) open.closed = true;
      this.#run.length = 0;
      return;
    }
    const { value } = epoch;
    this.#run.push({ epoch, value, index: this.#index, score: scoreOf(judged, value - epoch.error) });
    const score = this.#runScore(judged);
    if (open) {
      open.last = this.#index;
      open.endNs = epoch.endNs;
      open.peak = Math.max(open.peak, value);
      open.score = Math.max(open.score, score);
    } else if (score >= this.#settings.enter + fewEpochs(judged.epochs) && this.#matters(value, judged)) {
      const first = entryAt(this.#run, 0);
      this.spikes.push({
        startNs: first.epoch.startNs,
        endNs: epoch.endNs,
        first: first.index,
        last: this.#index,
        peak: Math.max(...this.#run.map((r) => r.value)),
        score,
        baseline: judged,
        closed: false,
      });
    }
    // Runs beyond the longest rule are not needed once a spike is open; before, they show where it began.
    const useful = this.#open ? LONGEST_RUN : this.#settings.windowEpochs;
    if (this.#run.length > useful) this.#run.shift();
  }

  /** Drops the spikes that ended before this epoch of the series. */
  forget(before: number): void {
    const kept = this.spikes.findIndex((spike) => spike.last >= before || !spike.closed);
    this.spikes.splice(0, kept < 0 ? this.spikes.length : kept);
  }

  get #open(): SeriesSpike | undefined {
    const last = this.spikes.at(-1);
    return last && !last.closed ? last : undefined;
  }

  #matters(value: number, baseline: Baseline): boolean {
    const { minEffect, minEffectShare } = this.#settings;
    const rise = value - baseline.median;
    // A median below zero or of seconds is a clock offset, not a measure of ordinary delay.
    const ordinary = baseline.median > LARGEST_DELAY_NS ? 0 : Math.max(0, baseline.median);
    return rise >= minEffect && rise >= minEffectShare * ordinary;
  }

  /** The score of a single epoch that would be as rare as the current run. */
  #runScore(baseline: Baseline): number {
    const independence = Math.max(0, 1 - 2 * baseline.memory);
    let best = Number.NEGATIVE_INFINITY;
    for (const { epochs, lasting, fleeting } of SUSTAINED) {
      if (this.#run.length < epochs) break;
      const minimum = Math.min(...this.#run.slice(-epochs).map((r) => r.score));
      best = Math.max(best, minimum + lasting + fleeting * independence);
    }
    return best;
  }
}

/** Finds all spikes of a whole series; the baseline of an epoch is taken from the window around it. */
export function findSpikes(
  series: readonly EpochValue[],
  settings: SpikeSettings,
): { spikes: SeriesSpike[]; baselines: (Baseline | null)[] } {
  const tracker = new SpikeTracker(settings);
  const known = Float64Array.from(series.flatMap(({ value }) => value ?? []));
  const floor = errorFloor(series, settings.resolution);
  const baselines: (Baseline | null)[] = [];
  const { windowEpochs, minEpochs } = settings;
  // Adjacent epochs share almost their whole window: renew the baseline every thirtieth of it.
  const stride = Math.max(1, Math.floor(windowEpochs / 30));
  let current: Baseline | null = null;
  let computedAt = Number.NEGATIVE_INFINITY;
  // Number of known values before this epoch.
  let rank = 0;
  for (const [i, epoch] of series.entries()) {
    if (known.length >= minEpochs && (i - computedAt >= stride || current === null)) {
      const start = Math.max(0, Math.min(rank - (windowEpochs >> 1), known.length - windowEpochs));
      current = baselineOf(known.subarray(start, start + windowEpochs), floor);
      computedAt = i;
    }
    baselines.push(current);
    tracker.push(epoch, current);
    if (epoch.value !== null) rank++;
  }
  return { spikes: tracker.spikes, baselines };
}

/** Follows one series as it arrives; the baseline of an epoch is taken from the window before it. */
export class SpikeStream {
  readonly #settings: SpikeSettings;
  readonly #tracker: SpikeTracker;
  readonly #recent: EpochValue[] = [];
  #baseline: Baseline | null = null;
  /** The period in which it was computed. */
  #computedIn = Number.NaN;

  constructor(settings: SpikeSettings) {
    this.#settings = settings;
    this.#tracker = new SpikeTracker(settings);
  }

  get spikes(): readonly SeriesSpike[] {
    return this.#tracker.spikes;
  }

  /** Drops the spikes that ended before this epoch of the series. */
  forget(before: number): void {
    this.#tracker.forget(before);
  }

  /** Adds an epoch; returns the baseline by which it was judged: null while there are too few epochs before it. */
  push(epoch: EpochValue): Baseline | null {
    const { minEpochs, windowEpochs } = this.#settings;
    // As for whole series: adjacent epochs share almost their whole window. The periods are fixed in time, so that a stream that began later computes its baselines at the same epochs.
    const period = periodOf(epoch, Math.floor(this.#recent.length / 30));
    if (this.#recent.length >= minEpochs && (!this.#baseline || period !== this.#computedIn)) {
      const values = this.#recent.flatMap((e) => e.value ?? []);
      this.#baseline = baselineOf(values, errorFloor(this.#recent, this.#settings.resolution));
      this.#computedIn = period;
    }
    this.#tracker.push(epoch, this.#baseline);
    if (epoch.value !== null) this.#recent.push(epoch);
    if (this.#recent.length > windowEpochs) this.#recent.shift();
    return this.#baseline;
  }
}

/** Number of the period of about `epochs` epochs that contains an epoch's start. Periods are powers of two long, because epochs may differ a little in length. */
function periodOf({ startNs, endNs }: EpochValue, epochs: number): number {
  return Math.floor(startNs / 2 ** Math.round(Math.log2(Math.max(1, epochs) * (endNs - startNs))));
}

/** Lower limit of a baseline's scale: the typical error of its values, and the resolution. */
function errorFloor(series: readonly EpochValue[], resolution: number): number {
  const errors = series
    .filter((e) => e.value !== null)
    .map((e) => e.error)
    .sort((a, b) => a - b);
  return Math.max(resolution, errors.length > 0 ? 0.6745 * entryAt(errors, errors.length >> 1) : 0);
}
