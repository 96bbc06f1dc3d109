/**
 * When reference packets are due: at a fixed rate; one per n packets of an interface (1-in-n); or adaptively, by the interface's utilisation (algorithm 1 of
 * RLI applied to its counters: packets sent since the last poll, times the injection rate, are due as references). The last two never pause longer than
 * `maxGapNs` (the paper's tau).
 */
import { readFileSync } from "node:fs";
import { UsageError } from "../base/errors.ts";
import { ADAPTIVE_DEFAULTS, AdaptiveRate, type AdaptiveSettings } from "./injection-rate.ts";

export interface PaceOptions {
  /** A fixed rate. */
  packetsPerSecond?: number | undefined;
  /** Interface whose packets are counted. */
  device?: string | undefined;
  /** One reference per this many packets of the interface. */
  every?: number | undefined;
  /** Drain rate of the interface's queue, bit/s: sets the rate by its utilisation. */
  drainBps?: number | undefined;
  /** Limits and smoothing of the adaptive scheme; omitted fields have their defaults. */
  adaptive?: Partial<AdaptiveSettings> | undefined;
  /** Longest pause while the interface is silent (default 100 ms). */
  maxGapNs?: number | undefined;
  maxPerSecond?: number | undefined;
}

/** Counters are polled every few milliseconds, not per reference: this smoothing corresponds to as many references. */
const TICK_SMOOTHING = 0.05;
const MAX_GAP_NS = 100e6;
const MAX_PER_SECOND = 5000;

interface Counters {
  packets: number;
  bytes: number;
}

/** Returns the interface's send counters so far (Linux). */
export function readInterface(device: string): Counters {
  const read = (name: string) => Number(readFileSync(`/sys/class/net/${device}/statistics/${name}`, "utf8"));
  try {
    return { packets: read("tx_packets"), bytes: read("tx_bytes") };
  } catch (cause) {
    throw new UsageError(
      "bad-option",
      `the counters of ${device} cannot be read`,
      "ip link lists the interfaces",
      { parameter: "interface", value: device, cause },
    );
  }
}

export interface Pace {
  /** Number of references due for this much time. */
  due(elapsedNs: number): number;
  utilisation(): number | null;
}

export function makePace(options: PaceOptions): Pace {
  const { packetsPerSecond, device, drainBps, every } = options;
  const ways = [packetsPerSecond, every, drainBps].filter((x) => x !== undefined).length;
  if (ways !== 1 || (packetsPerSecond === undefined && device === undefined)) {
    throw new UsageError(
      "bad-option",
      ways === 0 ? "the rate of the references is missing" : "references need exactly one rate",
      "give ‘rate’, or ‘interface’ with ‘every’ or ‘drain’",
    );
  }
  if (packetsPerSecond !== undefined) {
    return { due: (ns) => (packetsPerSecond * ns) / 1e9, utilisation: () => null };
  }
  return countedPace(options, device ?? "");
}

/** Paced by the interface's counters. */
function countedPace(
  { every, drainBps, adaptive, maxGapNs, maxPerSecond }: PaceOptions,
  device: string,
): Pace {
  const rate =
    drainBps === undefined
      ? null
      : new AdaptiveRate(
          drainBps,
          checkLimits({ ...ADAPTIVE_DEFAULTS, smoothing: TICK_SMOOTHING, ...adaptive }),
        );
  const floor = 1 / (maxGapNs ?? MAX_GAP_NS);
  const ceiling = (maxPerSecond ?? MAX_PER_SECOND) / 1e9;
  let last = readInterface(device);
  let own = 0;
  return {
    due(elapsedNs) {
      const now = readInterface(device);
      const share = rate?.update(now.bytes - last.bytes, elapsedNs) ?? 1 / (every ?? 1);
      // The counted packets include the references themselves.
      const packets = Math.max(0, now.packets - last.packets - own);
      last = now;
      own = Math.min(ceiling * elapsedNs, Math.max(floor * elapsedNs, packets * share));
      return own;
    },
    utilisation: () => rate?.utilisation ?? null,
  };
}

function checkLimits(settings: AdaptiveSettings): AdaptiveSettings {
  const { minUtilisation, maxUtilisation, minRate, maxRate, smoothing } = settings;
  const bad = (problem: string, parameter: string) =>
    new UsageError("bad-option", problem, undefined, { parameter });
  if (!(minUtilisation < maxUtilisation))
    throw bad("must be above the minimum utilisation", "max-utilisation");
  if (!(minRate <= maxRate)) throw bad("must not be below the minimum share of references", "max-share");
  if (!(smoothing > 0 && smoothing <= 1)) throw bad("must be above 0 and at most 1", "smoothing");
  return settings;
}
