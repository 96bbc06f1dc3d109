/**
 * A simulated path for tests and the benchmark: segments with ordinary queueing noise, and injected spikes.
 *
 * Ordinary epoch means are heavy-tailed and correlated in time. Half of the segments follow a lognormal process with memory (deviation of the logarithm 0.3 to
 * 0.6, correlation between epochs 0.6 to 0.9). The others are single-server queues (Lindley's recursion) with Pareto bursts (shape 1.5, at most 100 times the
 * minimum) at 30 to 60 % load. The error of measuring some hundred to some thousand packets is added; low and high reflect it.
 */
import { entryAt } from "../base/lists.ts";
import { Random } from "../base/random.ts";
import type { LocaliseEstimate } from "../network/localise/segment-estimate.ts";
import type { LossSpike, Spike } from "../network/localise/verdicts.ts";

export interface InjectedSpike {
  readonly segment: number;
  readonly firstEpoch: number;
  readonly epochs: number;
  /** Added to the mean at the spike's peak; the first and last epoch get half of it. */
  readonly excessNs: number;
}

export interface SimulatedPath {
  readonly points: string[];
  readonly estimates: LocaliseEstimate[];
  /** Ordinary median of the queueing delay per segment, as a unit for spikes. */
  readonly ordinaryNs: number[];
}

export const EPOCH_NS = 1e9;

/** Makes one estimate; `halfNs` is half the width of its interval. */
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

/** Loss of every segment: loss rate, mean packets per burst, packets sent per epoch. */
export type OrdinaryLoss = { rate?: number; burst?: number; packets?: number };

export interface InjectedLoss {
  readonly segment: number;
  readonly firstEpoch: number;
  readonly epochs: number;
  /** Loss rate during the spike, in addition to the ordinary loss. */
  readonly rate: number;
}

/**
 * Simulates the path with ordinary loss instead: rates of 0.01 to 0.3 % per segment (unless set in `ordinary`), half of the segments with single losses, half
 * with bursts of 2 to 10 packets on average (geometric), 500 to 5,000 packets per epoch.
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

/** Draws an integer >= 1 with this mean (geometric). */
function geometric(random: Random, mean: number): number {
  return mean <= 1 ? 1 : 1 + Math.floor(Math.log(1 - random.float()) / Math.log(1 - 1 / mean));
}

/** A path of six segments and 160 epochs, with the spike that was injected. */
export interface Trial {
  readonly path: SimulatedPath;
  /** Null: no spike. */
  readonly injected: {
    readonly segment: number;
    readonly firstEpoch: number;
    readonly epochs: number;
  } | null;
}

const TRIAL = { segments: 6, epochs: 160 };

/** `size`: the spike in multiples of the segment's ordinary queueing delay, or its additional loss rate; 0 for no spike. */
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

/** Returns whether the segment blamed for this time is the one with the injected spike. */
function isRight({ path, injected }: Trial, from: string, fromNs: number, toNs: number): boolean {
  return (
    injected !== null &&
    from === path.points[injected.segment] &&
    fromNs < (injected.firstEpoch + injected.epochs) * EPOCH_NS &&
    toNs > injected.firstEpoch * EPOCH_NS
  );
}

/** Returns the outcome of a trial. It is right only if every named segment is right. */
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

/** Returns every statement about a possible culprit: its stated probability, and whether it is right. */
export function statements(trial: Trial, spikes: readonly (Spike | LossSpike)[]): Statement[] {
  return spikes.flatMap((s) => {
    const who = s.segment ? [{ ...s.segment, confidence: s.confidence }] : (s.candidates ?? []);
    return who.map((c) => ({ confidence: c.confidence, right: isRight(trial, c.from, s.fromNs, s.toNs) }));
  });
}

/** Half of the paths have a spike of random size: 3 to 900 times the ordinary delay, or 0.3 to 30 % loss. */
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
  // Mean of a Pareto distribution of shape 1.5 from 1, cut at 100.
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
    // The epochs before 0 fill the empty queue.
    if (t >= 0) means.push((scaleNs * sum) / perEpoch / 6);
  }
  return means;
}
