/**
 * The schema of a scenario, whether it comes from a file or from a program: every field of scenario.ts with its type and limits. The limits keep the memory and
 * time of a simulation within what one machine has, so that a mistyped exponent is refused at once.
 */
import {
  Array as ArrayOf,
  Enum,
  Object as Fields,
  Boolean as Flag,
  Integer,
  Literal,
  Number as NumberOf,
  Optional,
  Record as RecordOf,
  String as Text,
  type TProperties,
  Union,
} from "typebox";
import { checkedValue } from "../base/schema.ts";
import type { Scenario } from "./scenario.ts";

/** 36 bytes per flow in the kernel, and about a minute to draw all of them. */
const MAX_FLOWS = 20_000_000;
/** Packets in one queue, 16 bytes each. */
const MAX_QUEUE = 10_000_000;
/** Each hop is a stage with its own buffers: a few hundred kilobytes. */
const MAX_HOPS = 256;
const MAX_PATHS = 256;
/** One year. */
const MAX_SECONDS = 366 * 86_400;
const MAX_PACKETS = 1e12;
const MAX_RATE_PPS = 1e9;
const MAX_BPS = 1e13;
/** Largest number of ns that a double represents exactly: 104 days. */
const MAX_NS = 2 ** 53 - 1;

const closed = <P extends TProperties>(fields: P) => Fields(fields, { additionalProperties: false });
const above0 = (maximum: number) => NumberOf({ exclusiveMinimum: 0, maximum });
const from0 = (maximum: number) => NumberOf({ minimum: 0, maximum });
const share = from0(1);
const delayNs = from0(MAX_NS);

const sizes = Optional(
  closed({ share1500: Optional(share), share576: Optional(share), mixing: Optional(share) }),
);
const prefixes = Optional(
  ArrayOf(closed({ prefix: Text(), share: Optional(from0(1e9)) }), { minItems: 1, maxItems: 4096 }),
);
const keys = Optional(
  closed({
    sources: prefixes,
    targets: prefixes,
    udpShare: Optional(share),
    classes: Optional(
      ArrayOf(closed({ dscp: Integer({ minimum: 0, maximum: 63 }), share: from0(1e9) }), { maxItems: 64 }),
    ),
  }),
);
const arrivals = Optional(Enum(["poisson", "uniform"]));

const synthetic = closed({
  kind: Literal("synthetic"),
  ratePps: above0(MAX_RATE_PPS),
  durationS: above0(MAX_SECONDS),
  packets: Optional(above0(MAX_PACKETS)),
  alpha: Optional(above0(100)),
  maxFlowPackets: Optional(NumberOf({ minimum: 1, maximum: 2 ** 31 })),
  inputs: Optional(Integer({ minimum: 1, maximum: 255 })),
  lineRateBps: Optional(above0(MAX_BPS)),
  rtt: Optional(
    closed({
      medianMs: Optional(above0(1e6)),
      sigma: Optional(from0(10)),
      minMs: Optional(above0(1e6)),
      maxMs: Optional(above0(1e6)),
    }),
  ),
  access: Optional(closed({ minBps: Optional(above0(MAX_BPS)), maxBps: Optional(above0(MAX_BPS)) })),
  window: Optional(
    closed({
      first: Optional(NumberOf({ minimum: 1, maximum: 65_535 })),
      capLow: Optional(NumberOf({ minimum: 1, maximum: 65_535 })),
      capHigh: Optional(NumberOf({ minimum: 1, maximum: 65_535 })),
    }),
  ),
  sizes,
  keys,
});
const population = closed({
  kind: Literal("population"),
  ratePps: above0(MAX_RATE_PPS),
  startS: Optional(from0(MAX_SECONDS)),
  durationS: Optional(above0(MAX_SECONDS)),
  packets: Optional(above0(MAX_PACKETS)),
  flows: Optional(NumberOf({ minimum: 1, maximum: MAX_FLOWS })),
  arrivals,
  alpha: Optional(above0(100)),
  weightMax: Optional(above0(1e12)),
  sizes,
  keys,
});
const replay = closed({
  kind: Literal("replay"),
  file: Text({ minLength: 1 }),
  timeScale: Optional(above0(1e9)),
  durationS: Optional(above0(MAX_SECONDS)),
});
const traffic = Union([synthetic, population, replay]);

const queue = {
  rateBps: Optional(above0(MAX_BPS)),
  utilisation: Optional(above0(100)),
  discipline: Optional(Enum(["droptail", "red"])),
  capacityPackets: Optional(NumberOf({ minimum: 1, maximum: MAX_QUEUE })),
  red: Optional(
    closed({
      minTh: Optional(from0(MAX_QUEUE)),
      maxTh: Optional(from0(MAX_QUEUE)),
      weight: Optional(share),
      maxP: Optional(share),
    }),
  ),
  propagationNs: Optional(delayNs),
};
const spaced = Optional(Flag());
const model = Union([
  closed({ kind: Literal("constant"), ns: delayNs }),
  closed({ kind: Literal("weibull"), scaleNs: delayNs, shape: above0(1e6), spaced }),
  closed({ kind: Literal("pareto"), scaleNs: delayNs, shape: above0(1e6), spaced }),
  closed({ kind: Literal("exponential"), meanNs: delayNs, spaced }),
  closed({ kind: Literal("lognormal"), medianNs: delayNs, sigma: from0(100), spaced }),
  closed({ kind: Literal("uniform"), lowNs: delayNs, highNs: delayNs, spaced }),
  closed({
    kind: Literal("per-flow"),
    medianNs: Optional(delayNs),
    sigma: Optional(from0(100)),
    jitter: Optional(from0(100)),
  }),
  closed({
    kind: Literal("bimodal"),
    lowNs: Optional(delayNs),
    highNs: Optional(delayNs),
    shareLow: Optional(share),
    jitter: Optional(from0(100)),
  }),
]);
const point = Optional(Text());
const inTurn = ArrayOf(traffic, { minItems: 1, maxItems: 64 });
const hop = Union([
  closed({ kind: Literal("queue"), ...queue, cross: Optional(Union([traffic, inTurn])), point }),
  closed({
    kind: Literal("classes"),
    scheduler: Enum(["strict", "drr"]),
    rateBps: queue.rateBps,
    utilisation: queue.utilisation,
    classes: ArrayOf(
      closed({
        dscp: Optional(ArrayOf(Integer({ minimum: 0, maximum: 63 }), { maxItems: 64 })),
        weight: Optional(above0(1e6)),
        capacityPackets: queue.capacityPackets,
      }),
      { minItems: 1, maxItems: 64 },
    ),
    propagationNs: queue.propagationNs,
    cross: Optional(traffic),
    point,
  }),
  closed({
    kind: Literal("paths"),
    choose: Enum(["flow", "packet"]),
    paths: ArrayOf(closed(queue), { minItems: 1, maxItems: MAX_PATHS }),
    point,
  }),
  closed({ kind: Literal("delay"), model, point }),
  closed({ kind: Literal("loss"), model: Literal("uniform"), probability: share, point }),
  closed({
    kind: Literal("loss"),
    model: Literal("bursts"),
    probability: share,
    meanBurst: NumberOf({ minimum: 1, maximum: 1e12 }),
    point,
  }),
  closed({ kind: Literal("reorder"), probability: share, extentNs: delayNs, point }),
]);

export const SCENARIO = closed({
  seed: Optional(Integer({ minimum: 0, maximum: 2 ** 53 - 1 })),
  traffic,
  path: ArrayOf(hop, { maxItems: MAX_HOPS }),
  clocks: Optional(
    RecordOf(
      Text(),
      closed({
        offsetNs: Optional(NumberOf({ minimum: -MAX_NS, maximum: MAX_NS })),
        skewPpm: Optional(NumberOf({ minimum: -1e6, maximum: 1e6 })),
        jitterNs: Optional(delayNs),
        resolutionNs: Optional(above0(MAX_NS)),
      }),
    ),
  ),
  probes: Optional(
    closed({
      ratePps: above0(MAX_RATE_PPS),
      arrivals,
      wireLength: Optional(Integer({ minimum: 28, maximum: 65_535 })),
    }),
  ),
});

/** Throws a UsageError for an unknown field or kind, or an invalid value. `source` is the name of the file. */
export function checkScenario(value: unknown, source = "scenario"): asserts value is Scenario {
  const plain = value !== null && typeof value === "object" && "inject" in value ? without(value) : value;
  checkedValue(SCENARIO, plain, { source, hint: "docs/simulate.md describes the fields" });
}

/** `inject` is a function that only programs can set; the schema does not contain it. */
function without(value: object): object {
  const { inject: _inject, ...rest } = value as { inject: unknown };
  return rest;
}
