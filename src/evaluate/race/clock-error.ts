/**
 * Clock error in a race: the receiver's clock minus the sender's. It is added to every arrival time, and to every delay computed from one; the true delays do
 * not change.
 */
import { invalidValue } from "../../base/errors.ts";
import { parseDuration } from "../../base/time.ts";
import type { PacketBatch } from "../../capture/batch.ts";
import { RECEIVER, type Scenario, SENDER } from "../../simulate/scenario.ts";

export interface ClockError {
  readonly offsetNs: number;
  readonly skewPpm: number;
  /** Amplitude and period of a slow oscillation, as of a steered clock. */
  readonly wanderNs: number;
  readonly periodNs: number;
}

export const NO_CLOCK_ERROR: ClockError = { offsetNs: 0, skewPpm: 0, wanderNs: 0, periodNs: 10e9 };

/** Parses "offset=10us,skew=5,wander=2us,period=10s"; the skew is in parts per million. */
export function parseClockError(text: string): ClockError {
  const out = { ...NO_CLOCK_ERROR };
  const expected = "e.g. offset=10us,skew=5,wander=2us,period=10s (skew in ppm)";
  for (const part of text.split(",")) {
    const [name = "", value = ""] = part.split("=").map((word) => word.trim());
    if (name === "offset") out.offsetNs = parseDuration(value, { signed: true });
    else if (name === "skew" && value !== "" && Math.abs(Number(value)) < 1e5) out.skewPpm = Number(value);
    else if (name === "wander") out.wanderNs = parseDuration(value);
    else if (name === "period" && parseDuration(value) > 0) out.periodNs = parseDuration(value);
    else throw invalidValue("clock-error", text, expected);
  }
  return out;
}

export function clockErrorAt({ offsetNs, skewPpm, wanderNs, periodNs }: ClockError, timeNs: number): number {
  const wander = wanderNs === 0 ? 0 : wanderNs * Math.sin((2 * Math.PI * timeNs) / periodNs);
  return Math.round(offsetNs + 1e-6 * skewPpm * timeNs + wander);
}

/** Applies the error to the arrival times and delays of a batch. */
export function applyClockError({ count, timeNs, delayNs }: PacketBatch, error: ClockError): void {
  for (let i = 0; i < count; i++) {
    const off = clockErrorAt(error, timeNs[i]!);
    timeNs[i]! += off;
    delayNs[i]! += off;
  }
}

/** Replaces the clocks of a scenario by one clock error; their jitter is dropped. */
export function withoutClocks(scenario: Scenario): { scenario: Scenario; error: ClockError } {
  const { clocks, ...rest } = scenario;
  const [from, to] = [clocks?.[SENDER] ?? {}, clocks?.[RECEIVER] ?? {}];
  const error = {
    ...NO_CLOCK_ERROR,
    offsetNs: (to.offsetNs ?? 0) - (from.offsetNs ?? 0),
    skewPpm: (to.skewPpm ?? 0) - (from.skewPpm ?? 0),
  };
  return { scenario: rest, error };
}
