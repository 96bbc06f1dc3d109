/** Scenes with captures of all kinds at two points, drawn from a seed. */
import { Random } from "../../src/base/random.ts";
import type { CaptureShape, ClockShape, FileFormat, PathShape, SceneChoices } from "./scenario.ts";

const MS = 1e6;
const SECOND = 1e9;
const FORMATS: readonly FileFormat[] = ["pcap", "pcap-us", "pcapng", "erf"];

export function randomScene(seed: number): SceneChoices {
  const dice = new Random(`scene ${seed}`);
  const apart = new Random(`repeats of scene ${seed}`);
  const spanNs = logBetween(dice, SECOND, 3600 * SECOND);
  const twoWay = dice.bernoulli(0.5);
  const routed = dice.bernoulli(0.4);
  const wayBack = dice.bernoulli(0.3) ? 0.8 : 0;
  const path = randomPath(dice);
  const scene: SceneChoices = {
    seed,
    packets: 250 + dice.below(350),
    spanNs,
    flows: 3 + dice.below(10),
    reverseShare: twoWay ? 0.2 + 0.6 * dice.float() : 0,
    // Without routers, some flows need reverse packets, otherwise nothing can be known.
    unanswered: dice.bernoulli(0.3) ? (routed ? 1 : 0.5) : 0,
    reverseFrom: wayBack > 0 && spanNs > SECOND ? 0.5 * dice.float() : 0,
    routed,
    // Heartbeats and keep-alives: drawn separately, so that the rest of a scene does not change.
    repeats: apart.bernoulli(0.3) ? 0.2 * apart.float() : 0,
    wrap: apart.bernoulli(0.15) ? 40 + apart.below(200) : 0,
    tcp: dice.bernoulli(0.5),
    forward: path,
    reverse: dice.bernoulli(0.5) ? path : randomPath(dice),
    before: randomCapture(dice, spanNs),
    after: randomCapture(dice, spanNs),
    clock: randomClock(dice, spanNs),
  };
  return scene;
}

function randomPath(dice: Random): PathShape {
  const minNs = Math.round(logBetween(dice, 0.05 * MS, 30 * MS));
  return {
    minNs,
    queueNs: dice.bernoulli(0.1) ? 0 : minNs * logBetween(dice, 0.02, 1),
    rampNs: 0,
    fifo: dice.bernoulli(0.4),
    loss: dice.bernoulli(0.3) ? 0 : 0.05 * dice.float(),
    burst: dice.bernoulli(0.5) ? 1 : 1 + dice.below(6),
    duplicates: dice.bernoulli(0.7) ? 0 : 0.02 * dice.float(),
  };
}

function randomCapture(dice: Random, spanNs: number): CaptureShape {
  const layers = dice.bernoulli(0.7) ? "plain" : dice.bernoulli(0.5) ? "vlan" : "mpls";
  const format = FORMATS[dice.below(FORMATS.length)] ?? "pcap";
  const late = dice.bernoulli(0.15) ? 0.2 * dice.float() : 0;
  const early = dice.bernoulli(0.15) ? 0.2 * dice.float() : 0;
  return {
    format,
    // ERF has no snap length here.
    snapLength: format === "erf" || dice.bernoulli(0.5) ? 65_535 : 64 + dice.below(64),
    layers,
    fromNs: late > 0 ? late * spanNs : Number.NEGATIVE_INFINITY,
    toNs: early > 0 ? (1 - early) * spanNs : Number.POSITIVE_INFINITY,
  };
}

function randomClock(dice: Random, spanNs: number): ClockShape {
  const sign = () => (dice.bernoulli(0.5) ? 1 : -1);
  const size = dice.below(4);
  const offset =
    size === 0
      ? 0
      : size === 1
        ? 20 * MS * dice.float()
        : size === 2
          ? 9 * SECOND * dice.float()
          : logBetween(dice, 20 * SECOND, 3 * 86_400 * SECOND);
  const stepped = dice.bernoulli(0.25);
  return {
    offsetNs: Math.round(sign() * offset),
    ppm: dice.bernoulli(0.4) ? 0 : sign() * 200 * dice.float(),
    steps: stepped
      ? [{ atNs: dice.float() * spanNs, sizeNs: Math.round(sign() * logBetween(dice, 5 * MS, 3 * SECOND)) }]
      : [],
    wanderNs: 0,
    wanderPeriodNs: SECOND,
  };
}

function logBetween(dice: Random, low: number, high: number): number {
  return low * (high / low) ** dice.float();
}
