/**
 * A simulated path for tests and the bench: segments with ordinary queueing noise, and spikes where they are wanted.
 *
 * Ordinary epoch means are heavy-tailed and correlated in time. Half of the segments are a lognormal process with memory
 * (deviation 0.3 to 0.6 of the logarithm, correlation 0.6 to 0.9 between epochs), half are a real single-server queue
 * (Lindley's recursion) fed with Pareto bursts (shape 1.5, at most 100 times the least) at 30 to 60 % load. On top comes the
 * error of measuring some hundred to some thousand packets, and it is what low and high tell.
 */
import { entryAt } from "../base/lists.ts";
import { Random } from "../base/random.ts";
import type { LocaliseEstimate } from "../network/localise/segment-estimate.ts";
import type { LossSpike, Spike } from "../network/localise/verdicts.ts";

export interface InjectedSpike {
  readonly segment: number;
  readonly firstEpoch: number;
  readonly epochs: number;
  /** Added to the mean at its height; the first and last epoch get half. */
  readonly excessNs: number;
}

export interface SimulatedPath {
  readonly points: string[];
  readonly estimates: LocaliseEstimate[];
  /** Ordinary median of queueing per segment, to state spikes in multiples of it. */
  readonly ordinaryNs: number[];
}

export const EPOCH_NS = 1e9;

/** One estimate by hand; `halfNs` is half of its interval. */
export function estimate(
  from: string,
  to: string,
  epoch: number,
  meanNs: number | null,
  halfNs = 100,
  more: Partial<LocaliseEstimate> = {},
): LocaliseEstimate {
  return {
    fromPoint: from,
    toPoint: to,
    epochStartNs: epoch * EPOCH_NS,
    epochEndNs: (epoch + 1) * EPOCH_NS,
    meanNs,
    lowNs: meanNs === null ? null : meanNs - halfNs,
    highNs: meanNs === null ? null : meanNs + halfNs,
    stdevNs: 1000,
    packets: 1000,
    lost: 0,
    ...more,
  };
}

export function simulatePath(
  random: Random,
  segmentCount: number,
  epochs: number,
  spikes: (ordinaryNs: readonly number[]) => readonly InjectedSpike[],
): SimulatedPath {
  const points = Array.from({ length: segmentCount + 1 }, (_, i) => `P${i + 1}`);
  const queueing = Array.from({ length: segmentCount }, (_, j) => {
    const own = random.fork(`segment ${j}`);
    const scaleNs = 10_000 * 6 ** own.float();
    return own.bernoulli(0.5) ? lognormalProcess(own, epochs, scaleNs) : queueProcess(own, epochs, scaleNs);
  });
  const ordinaryNs = queueing.map((q) => [...q].sort((a, b) => a - b)[q.length >> 1]!);
  const injected = spikes(ordinaryNs);
  const estimates: LocaliseEstimate[] = [];
  for (const [j, queue] of queueing.entries()) {
    const own = random.fork(`measurement ${j}`);
    const [fromPoint, toPoint] = [entryAt(points, j), entryAt(points, j + 1)];
    const propagationNs = 5_000 * 1000 ** own.float();
    const rate = 300 * 10 ** own.float();
    for (let t = 0; t < epochs; t++) {
      let queueNs = queue[t]!;
      for (const s of injected) {
        const at = t - s.firstEpoch;
        if (s.segment !== j || at < 0 || at >= s.epochs) continue;
        queueNs += s.epochs > 2 && (at === 0 || at === s.epochs - 1) ? s.excessNs / 2 : s.excessNs;
      }
      const packets = 1 + own.poisson(rate);
      const stdevNs = 1.2 * queueNs;
      const errorNs = stdevNs / Math.sqrt(packets);
      const meanNs = propagationNs + queueNs + errorNs * own.normal();
      estimates.push({
        fromPoint,
        toPoint,
        epochStartNs: t * EPOCH_NS,
        epochEndNs: (t + 1) * EPOCH_NS,
        meanNs,
        lowNs: meanNs - 1.96 * errorNs,
        highNs: meanNs + 1.96 * errorNs,
        stdevNs,
        packets,
        lost: own.poisson(packets * 1e-4),
      });
    }
  }
  return { points, estimates, ordinaryNs };
}

/** Of every segment: share lost, packets of a burst on average, packets sent in an epoch. */
export type OrdinaryLoss = { rate?: number; burst?: number; packets?: number };

export interface InjectedLoss {
  readonly segment: number;
  readonly firstEpoch: number;
  readonly epochs: number;
  /** Share lost while it lasts, on top of what is ordinary. */
  readonly rate: number;
}

/**
 * The path with ordinary loss instead: shares of 0.01 to 0.3 % per segment (unless `ordinary` says otherwise), half of the segments one
 * packet at a time, half in bursts of 2 to 10 packets on average (geometric), 500 to 5,000 packets an epoch.
 */
export function simulateLoss(
  random: Random,
  segmentCount: number,
  epochs: number,
  injected: readonly InjectedLoss[],
  ordinary?: OrdinaryLoss,
): SimulatedPath {
  const path = simulatePath(random.fork("delay"), segmentCount, epochs, () => []);
  const models = Array.from({ length: segmentCount }, (_, j) => {
    const own = random.fork(`loss ${j}`);
    const rate = 1e-4 * 30 ** own.float();
    const burst = own.bernoulli(0.5) ? 1 : 2 + 8 * own.float();
    return { own, rate, burst, packets: 500 * 10 ** own.float(), ...ordinary };
  });
  const estimates = path.estimates.map((e) => {
    const j = path.points.indexOf(e.fromPoint);
    const t = Math.round(e.epochStartNs / EPOCH_NS);
    const { own, rate, burst, packets } = entryAt(models, j);
    const sent = 1 + own.poisson(packets);
    const extra = injected
      .filter((s) => s.segment === j && t >= s.firstEpoch && t < s.firstEpoch + s.epochs)
      .reduce((sum, s) => sum + s.rate, 0);
    let lost = 0;
    const bursts = own.poisson((sent * (rate + extra)) / burst);
    for (let b = 0; b < bursts; b++) lost += geometric(own, burst);
    lost = Math.min(sent, lost);
    return { ...e, packets: sent - lost, lost };
  });
  return { ...path, estimates };
}

/** A whole number from 1 on with this mean. */
function geometric(random: Random, mean: number): number {
  return mean <= 1 ? 1 : 1 + Math.floor(Math.log(1 - random.float()) / Math.log(1 - 1 / mean));
}

/** A path of six segments and 160 epochs, and what was put into it. */
export interface Trial {
  readonly path: SimulatedPath;
  /** Null: nothing out of the ordinary. */
  readonly injected: {
    readonly segment: number;
    readonly firstEpoch: number;
    readonly epochs: number;
  } | null;
}

const TRIAL = { segments: 6, epochs: 160 };

/** `size`: a spike of so many times the segment's ordinary queueing, or of so much more loss; 0 for none. */
export function delayTrial(seed: string, size: (random: Random) => number): Trial {
  const random = new Random(seed);
  const { place, times } = drawSpike(random, size);
  const path = simulatePath(random, TRIAL.segments, TRIAL.epochs, (ordinaryNs) =>
    times > 0 ? [{ ...place, excessNs: times * ordinaryNs[place.segment]! }] : [],
  );
  return { path, injected: times > 0 ? place : null };
}

export function lossTrial(seed: string, size: (random: Random) => number, ordinary?: OrdinaryLoss): Trial {
  const random = new Random(seed);
  const { place, times } = drawSpike(random, size);
  const injected = times > 0 ? [{ ...place, rate: times }] : [];
  return {
    path: simulateLoss(random, TRIAL.segments, TRIAL.epochs, injected, ordinary),
    injected: times > 0 ? place : null,
  };
}

function drawSpike(random: Random, size: (random: Random) => number) {
  const choice = random.fork("choice");
  const place = {
    segment: choice.below(TRIAL.segments),
    epochs: 2 + choice.below(12),
    firstEpoch: 10 + choice.below(TRIAL.epochs - 30),
  };
  return { place, times: size(choice) };
}

/** Whether a segment named for this time is the one that the spike was put into. */
function isRight({ path, injected }: Trial, from: string, fromNs: number, toNs: number): boolean {
  return (
    injected !== null &&
    from === path.points[injected.segment] &&
    fromNs < (injected.firstEpoch + injected.epochs) * EPOCH_NS &&
    toNs > injected.firstEpoch * EPOCH_NS
  );
}

/** What became of a trial: every segment named must be right. */
export function outcomeOf(
  trial: Trial,
  spikes: readonly (Spike | LossSpike)[],
): "right" | "wrong" | "undecided" | "missed" {
  const named = spikes.flatMap(({ segment, fromNs, toNs }) => (segment ? [{ segment, fromNs, toNs }] : []));
  const hits = named.filter((s) => isRight(trial, s.segment.from, s.fromNs, s.toNs));
  if (named.length > hits.length) return "wrong";
  if (hits.length > 0) return "right";
  if (spikes.length > 0) return "undecided";
  return trial.injected ? "missed" : "right";
}

export interface Statement {
  readonly confidence: number;
  readonly right: boolean;
}

/** Every statement about who it may be: the stated probability, and whether it is right. */
export function statements(trial: Trial, spikes: readonly (Spike | LossSpike)[]): Statement[] {
  return spikes.flatMap((s) => {
    const who = s.segment ? [{ ...s.segment, confidence: s.confidence }] : (s.candidates ?? []);
    return who.map((c) => ({ confidence: c.confidence, right: isRight(trial, c.from, s.fromNs, s.toNs) }));
  });
}

/** Half of the paths have a spike, of any size: delay 3 to 900 times the ordinary, loss 0.3 to 30 %. */
export const anyDelay = (random: Random) => (random.bernoulli(0.5) ? 3 * 300 ** random.float() : 0);
export const anyLoss = (random: Random) => (random.bernoulli(0.5) ? 0.003 * 100 ** random.float() : 0);

function lognormalProcess(random: Random, epochs: number, scaleNs: number): number[] {
  const deviation = 0.3 + 0.3 * random.float();
  const memory = 0.6 + 0.3 * random.float();
  let state = random.normal();
  return Array.from({ length: epochs }, () => {
    state = memory * state + Math.sqrt(1 - memory * memory) * random.normal();
    return scaleNs * Math.exp(deviation * state);
  });
}

function queueProcess(random: Random, epochs: number, scaleNs: number): number[] {
  const perEpoch = 80;
  const load = 0.3 + 0.3 * random.float();
  // Mean of a Pareto of shape 1.5 from 1, cut at 100.
  const meanBurst = 3 - 2 / Math.sqrt(100);
  let waiting = 0;
  const means: number[] = [];
  for (let t = -3; t < epochs; t++) {
    let sum = 0;
    for (let i = 0; i < perEpoch; i++) {
      waiting = Math.max(0, waiting - random.exponential(meanBurst / load));
      waiting += Math.min(100, random.pareto(1.5, 1));
      sum += waiting;
    }
    // The first epochs fill the empty queue.
    if (t >= 0) means.push((scaleNs * sum) / perEpoch / 6);
  }
  return means;
}
