/** Parses parts of a scenario from the text of options, and reads whole scenarios from JSON files. */
import { readFileSync } from "node:fs";
import { invalidValue, UsageError } from "../base/errors.ts";
import { parseDuration } from "../base/time.ts";
import type { Clock, DelayModel, LossHop, ReorderHop, Scenario } from "./scenario.ts";
import { checkScenario } from "./scenario-schema.ts";

const MULTIPLIER: Record<string, number> = { "": 1, k: 1e3, M: 1e6, G: 1e9 };

/** Parses a number above 0: "400k", "2.5M", "1e6". */
export function parseQuantity(text: string, parameter: string): number {
  const match = /^(\d+(?:\.\d+)?(?:e\d+)?)([kMG]?)$/.exec(text.trim());
  const value = match ? Number(match[1]) * (MULTIPLIER[match[2] ?? ""] ?? Number.NaN) : Number.NaN;
  if (!(value > 0)) throw invalidValue(parameter, text, "a number above 0, e.g. 400k, 2.5M, 1e6");
  return value;
}

/** Parses a share in [0, 1): "0.001" or "0.1%". */
export function parseShare(text: string, parameter: string): number {
  const percent = text.trim().endsWith("%");
  const digits = text.trim().replace(/%$/, "");
  const value = digits === "" ? Number.NaN : Number(digits) / (percent ? 100 : 1);
  if (!(value >= 0 && value < 1))
    throw invalidValue(parameter, text, "a share from 0 to below 1, e.g. 0.001 or 0.1%");
  return value;
}

const DELAY_MODELS =
  "one of constant:1ms, weibull:133us:0.6, pareto:100us:3, exponential:200us, lognormal:100us:0.5, uniform:0us:1ms, per-flow[:100us:0.75:0.3], bimodal[:100us:320us:0.5]";

/** Parses a delay model, e.g. "weibull:133us:0.6". */
export function parseDelay(text: string): DelayModel {
  const [kind, first, second, third] = text.split(":");
  const bad = () => invalidValue("delay", text, DELAY_MODELS);
  const time = (t: string | undefined) => {
    if (t === undefined) throw bad();
    return parseDuration(t);
  };
  const number = (t: string | undefined) => {
    const n = t === undefined || t === "" ? Number.NaN : Number(t);
    if (!(n >= 0)) throw bad();
    return n;
  };
  switch (kind) {
    case "constant":
      return { kind, ns: time(first) };
    case "weibull":
    case "pareto":
      return { kind, scaleNs: time(first), shape: number(second) };
    case "exponential":
      return { kind, meanNs: time(first) };
    case "lognormal":
      return { kind, medianNs: time(first), sigma: number(second) };
    case "uniform":
      return { kind, lowNs: time(first), highNs: time(second) };
    case "per-flow":
      return {
        kind,
        ...(first === undefined ? {} : { medianNs: time(first) }),
        ...(second === undefined ? {} : { sigma: number(second) }),
        ...(third === undefined ? {} : { jitter: number(third) }),
      };
    case "bimodal":
      return {
        kind,
        ...(first === undefined ? {} : { lowNs: time(first) }),
        ...(second === undefined ? {} : { highNs: time(second) }),
        ...(third === undefined ? {} : { shareLow: number(third) }),
      };
    default:
      throw bad();
  }
}

/** Parses loss: "0.1%", or "1%:100" for episodes of 100 packets on average. */
export function parseLoss(text: string): LossHop {
  const [share, burst] = text.split(":");
  const probability = parseShare(share ?? "", "loss");
  if (burst === undefined) return { kind: "loss", model: "uniform", probability };
  const meanBurst = Number(burst);
  if (!(meanBurst >= 1))
    throw invalidValue("loss", text, "SHARE or SHARE:PACKETS with bursts of at least 1 packet, e.g. 1%:100");
  return { kind: "loss", model: "bursts", probability, meanBurst };
}

/** Parses reordering: "1%:50us" delays a share of the packets by up to 50 us more. */
export function parseReorder(text: string): ReorderHop {
  const [share, extent] = text.split(":");
  if (extent === undefined) throw invalidValue("reorder", text, "SHARE:TIME, e.g. 1%:50us");
  return {
    kind: "reorder",
    probability: parseShare(share ?? "", "reorder"),
    extentNs: parseDuration(extent),
  };
}

/** Parses the clock of a point: "receiver:offset=-50us,skew=20,jitter=100ns,resolution=1us"; the skew is in parts per million. */
export function parseClock(text: string): { point: string; clock: Clock } {
  const expected = "POINT:SETTINGS, e.g. receiver:offset=-50us,skew=20,jitter=100ns,resolution=1us";
  const colon = text.indexOf(":");
  if (colon < 1) throw invalidValue("clock", text, expected);
  const clock: Clock = {};
  for (const part of text.slice(colon + 1).split(",")) {
    const [name, value] = part.split("=");
    if (value === undefined) throw invalidValue("clock", text, expected);
    if (name === "offset") clock.offsetNs = parseDuration(value, { signed: true });
    else if (name === "skew" && value !== "" && Number.isFinite(Number(value))) clock.skewPpm = Number(value);
    else if (name === "jitter") clock.jitterNs = parseDuration(value);
    else if (name === "resolution") clock.resolutionNs = parseDuration(value);
    else throw invalidValue("clock", text, expected);
  }
  return { point: text.slice(0, colon), clock };
}

/** Reads a scenario of type Scenario from a JSON file. */
export function readScenario(path: string): Scenario {
  const hint = "expected a JSON file with traffic and path (docs/simulate.md)";
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (cause) {
    throw new UsageError("no-such-file", `${path}: cannot be read`, hint, { cause });
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new UsageError("bad-parameter", `${path}: not JSON (${(cause as Error).message})`, hint, { cause });
  }
  checkScenario(value, path);
  return value;
}
