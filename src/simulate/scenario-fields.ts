/** Which fields a scenario's file may have, so that a misspelt one is refused and not left out without a word. Mirrors the types of scenario.ts. */
import { UsageError } from "../base/errors.ts";

/** A field is a value (null), an object, a list of objects, objects by a name of their own, or one of several by its `kind`. */
type Shape = null | Fields | readonly [Shape] | { readonly byName: Shape } | Kinds;
interface Fields {
  readonly fields: Readonly<Record<string, Shape>>;
}
interface Kinds {
  readonly kinds: Readonly<Record<string, Readonly<Record<string, Shape>>>>;
}

const values = (...names: string[]) => Object.fromEntries(names.map((name) => [name, null]));

const SIZES: Fields = { fields: values("share1500", "share576", "mixing") };
const PREFIXES = [{ fields: values("prefix", "share") }] as const;
const KEYS: Fields = {
  fields: {
    sources: PREFIXES,
    targets: PREFIXES,
    udpShare: null,
    classes: [{ fields: values("dscp", "share") }],
  },
};
const TRAFFIC: Kinds = {
  kinds: {
    synthetic: {
      ...values("ratePps", "durationS", "packets", "alpha", "maxFlowPackets", "inputs", "lineRateBps"),
      rtt: { fields: values("medianMs", "sigma", "minMs", "maxMs") },
      access: { fields: values("minBps", "maxBps") },
      window: { fields: values("first", "capLow", "capHigh") },
      sizes: SIZES,
      keys: KEYS,
    },
    population: {
      ...values("ratePps", "durationS", "packets", "flows", "arrivals", "alpha", "weightMax"),
      sizes: SIZES,
      keys: KEYS,
    },
    replay: values("file", "timeScale", "durationS"),
  },
};
const QUEUE = {
  ...values("rateBps", "utilisation", "discipline", "capacityPackets", "propagationNs"),
  red: { fields: values("minTh", "maxTh", "weight", "maxP") },
};
const DELAY: Kinds = {
  kinds: {
    constant: values("ns"),
    weibull: values("scaleNs", "shape", "spaced"),
    pareto: values("scaleNs", "shape", "spaced"),
    exponential: values("meanNs", "spaced"),
    lognormal: values("medianNs", "sigma", "spaced"),
    uniform: values("lowNs", "highNs", "spaced"),
    "per-flow": values("medianNs", "sigma", "jitter"),
    bimodal: values("lowNs", "highNs", "shareLow", "jitter"),
  },
};
const HOPS: Kinds = {
  kinds: {
    queue: { ...QUEUE, cross: TRAFFIC },
    classes: {
      ...values("scheduler", "rateBps", "utilisation", "propagationNs"),
      classes: [{ fields: values("dscp", "weight", "capacityPackets") }],
      cross: TRAFFIC,
    },
    paths: { choose: null, paths: [{ fields: QUEUE }] },
    delay: { model: DELAY },
    loss: values("model", "probability", "meanBurst"),
    reorder: values("probability", "extentNs"),
  },
};
for (const hop of Object.values(HOPS.kinds)) (hop as Record<string, Shape>)["point"] = null;

const SCENARIO: Fields = {
  fields: {
    seed: null,
    traffic: TRAFFIC,
    path: [HOPS],
    clocks: { byName: { fields: values("offsetNs", "skewPpm", "jitterNs", "resolutionNs") } },
    probes: { fields: values("ratePps", "arrivals", "wireLength") },
  },
};

/** Refuses a scenario with a field or a kind that there is not. */
export function checkFields(file: string, scenario: unknown): void {
  check(file, scenario, SCENARIO, "");
}

function check(file: string, value: unknown, shape: Shape, at: string): void {
  if (shape === null || typeof value !== "object" || value === null) return;
  if (Array.isArray(shape)) {
    if (!Array.isArray(value)) throw refusal(file, at, "is no list");
    for (const [i, item] of value.entries()) check(file, item, shape[0], `${at}[${i}]`);
    return;
  }
  const named = shape as Fields | { byName: Shape } | Kinds;
  const inside = (name: string) => (at === "" ? name : `${at}.${name}`);
  if ("byName" in named) {
    for (const [name, item] of Object.entries(value)) check(file, item, named.byName, inside(name));
    return;
  }
  const fields = "fields" in named ? named.fields : kindOf(file, value, named, at);
  for (const [name, item] of Object.entries(value)) {
    if ("kinds" in named && name === "kind") continue;
    if (!Object.hasOwn(fields, name))
      throw refusal(file, inside(name), "there is no such field", `use ${Object.keys(fields).join(", ")}`);
    check(file, item, fields[name]!, inside(name));
  }
}

function kindOf(file: string, value: object, { kinds }: Kinds, at: string): Readonly<Record<string, Shape>> {
  const { kind } = value as { kind?: unknown };
  if (typeof kind === "string" && Object.hasOwn(kinds, kind)) return kinds[kind]!;
  throw refusal(file, `${at}.kind`, `is none of ${Object.keys(kinds).join(", ")}`);
}

function refusal(file: string, at: string, what: string, hint?: string): UsageError {
  return new UsageError("bad-parameter", `${file}: ${at}: ${what}`, hint);
}
