/**
 * RLI's reference packets in the simulator (rli-ton, section III-B1): 1-in-n, 1-in-tau, both, and adaptive (algorithm 1). A reference goes ahead of the packet
 * that triggers it; behind it, every sample would contain that packet's transmission time.
 */
import type { PacketBatch } from "../capture/batch.ts";
import { ADAPTIVE_DEFAULTS, AdaptiveRate, type AdaptiveSettings } from "../delays/injection-rate.ts";
import type { InjectedPacket, Injector } from "../simulate/injector.ts";

export type Injection =
  | { kind: "packets"; every: number }
  | { kind: "time"; everyNs: number }
  | { kind: "either"; every: number; everyNs: number }
  /** `drainBps`: drain rate of the monitored queue. */
  | { kind: "adaptive"; drainBps: number; settings?: AdaptiveSettings };

export interface ReferenceInjector extends Injector {
  /** Number of references and of regular packets so far. */
  readonly counts: { references: number; packets: number };
}

/** Decides for each packet whether a reference goes ahead of it, and returns its send time; NaN: no reference. */
interface Rule {
  ahead(timeNs: number, bytes: number): number;
}

export function referenceInjector(injection: Injection, packet?: InjectedPacket): ReferenceInjector {
  const rule = makeRule(injection);
  const counts = { references: 0, packets: 0 };
  return {
    ...(packet ? { packet } : {}),
    counts,
    inspect(batch: PacketBatch, sendNs: Float64Array): void {
      const { count, timeNs, wireLength } = batch;
      for (let i = 0; i < count; i++) {
        const at = rule.ahead(timeNs[i]!, wireLength[i]!);
        sendNs[i] = at;
        if (!Number.isNaN(at)) counts.references++;
      }
      counts.packets += count;
    },
  };
}

function makeRule(injection: Injection): Rule {
  switch (injection.kind) {
    case "packets":
      return either(injection.every, Number.POSITIVE_INFINITY);
    case "time":
      return either(Number.POSITIVE_INFINITY, injection.everyNs);
    case "either":
      return either(injection.every, injection.everyNs);
    case "adaptive":
      return adaptive(injection.drainBps, injection.settings ?? ADAPTIVE_DEFAULTS);
  }
}

/** A reference after this many packets or this much time, whichever comes first. The first packet triggers one. */
function either(every: number, everyNs: number): Rule {
  let since = every;
  let lastNs = Number.NEGATIVE_INFINITY;
  return {
    ahead(timeNs) {
      const dueNs = lastNs + everyNs;
      let at = Number.NaN;
      if (dueNs <= timeNs) at = dueNs > 0 ? dueNs : timeNs;
      else if (since >= every || lastNs === Number.NEGATIVE_INFINITY) at = timeNs;
      since++;
      if (!Number.isNaN(at)) {
        since = 1;
        lastNs = at;
      }
      return at;
    },
  };
}

function adaptive(drainBps: number, settings: AdaptiveSettings): Rule {
  const rate = new AdaptiveRate(drainBps, settings);
  let perPacket = settings.maxRate;
  let due = 1;
  let bytesSince = 0;
  let lastNs = Number.NaN;
  return {
    ahead(timeNs, bytes) {
      due += perPacket;
      let at = Number.NaN;
      if (due >= 1) {
        due = Math.min(due - 1, 1);
        at = timeNs;
        if (!Number.isNaN(lastNs)) perPacket = rate.update(bytesSince, timeNs - lastNs);
        bytesSince = 0;
        lastNs = timeNs;
      }
      bytesSince += bytes;
      return at;
    },
  };
}
