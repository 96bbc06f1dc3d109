/** Validates the options of an observation before anything is captured; callers in plain JavaScript have no type checks. */
import { checkCount, checkList, checkMethods, checkText, isText } from "../base/checks.ts";
import { invalidValue, UsageError } from "../base/errors.ts";
import { Kernels } from "../base/kernels.ts";
import { FlowKeySpec } from "../capture/flow/flow-key.ts";
import { checkIsSource } from "../capture/source/source.ts";
import type { Lane } from "./lane.ts";
import type { ObserveOptions } from "./observe.ts";
import type { TapPlan } from "./observer.ts";

const DELAYS = ["push", "tick", "finish", "waitingSinceNs", "counts", "free"];
const SINK = ["put", "flush", "close"];

/** Checked first: without these methods nothing could be ended or closed. */
export function checkEnds({ source, sink, delays }: ObserveOptions): void {
  checkIsSource("source", source);
  checkMethods("sink", sink, SINK);
  if (delays !== undefined && delays !== null) checkMethods("delays", delays, DELAYS);
}

export function checkObservation(options: ObserveOptions): void {
  const { kernels, lanes, taps, key, cover, tickMs, onRecord } = options;
  if (!(kernels instanceof Kernels)) throw invalidValue("kernels", kernels, "new Kernels()");
  checkList("lanes", lanes, "a list of { segment, role, filter }", isLane);
  if (lanes.length === 0)
    throw new UsageError("bad-option", "there is none", "give at least one", {
      ...{ parameter: "lanes", value: [] },
    });
  checkList("taps", taps, "a list of { estimator, parameters }", isTap);
  if (!(key instanceof FlowKeySpec)) throw invalidValue("key", key, "FlowKeySpec.parse('5tuple')");
  checkCount("cover", cover, 1, "bad-parameter");
  checkText("point", options.point, "a name");
  if (tickMs !== undefined && !(tickMs > 0 && Number.isFinite(tickMs)))
    throw invalidValue("tickMs", tickMs, "ms above 0");
  if (onRecord !== undefined && typeof onRecord !== "function")
    throw invalidValue("onRecord", onRecord, "a function");
}

function isLane(one: unknown): boolean {
  const { segment, role, filter } = (one ?? {}) as Partial<Lane>;
  return [segment, role, filter].every(isText);
}

function isTap(one: unknown): boolean {
  const { estimator, parameters } = (one ?? {}) as Partial<TapPlan>;
  return typeof estimator?.createTap === "function" && typeof parameters === "object" && parameters !== null;
}
