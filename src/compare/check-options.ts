/** Checks the options of a comparison: refuses those that would run for ever, or give meaningless numbers. */
import { checkChoice, checkCount, checkNs, checkText } from "../base/checks.ts";
import { invalidValue } from "../base/errors.ts";
import { CORRECTION_MODES } from "../clock/correction.ts";
import { MEASURE_NAMES } from "./columns.ts";
import type { FlowChoice } from "./flows.ts";

interface Checked {
  before: string;
  after: string;
  windowNs?: number;
  epochNs?: number | "by-length";
  clock?: string;
  flows?: FlowChoice;
}

export function checkOptions({ before, after, windowNs, epochNs, clock, flows }: Checked): void {
  checkText("before", before, "the path of a capture");
  checkText("after", after, "the path of a capture");
  if (windowNs !== undefined) checkNs("window", windowNs);
  if (epochNs !== undefined && epochNs !== "by-length" && !(epochNs > 0 && Number.isFinite(epochNs)))
    throw invalidValue("epoch", epochNs, "a time above 0, in ns, or by-length");
  if (clock !== undefined) checkChoice("clock", clock, CORRECTION_MODES, "bad-option");
  if (flows === undefined || flows === "all") return;
  if (typeof flows !== "object") throw invalidValue("flows", flows, "all, or { top, sort }");
  if (flows.top !== Number.POSITIVE_INFINITY) checkCount("top", flows.top, 0, "bad-option");
  checkChoice("sort", flows.sort, MEASURE_NAMES, "bad-option");
}
