/** The receiver's clock minus the sender's in a race: it is in every time of arrival, and in every delay that is made of one. The truth stays what it was. */
import { invalidValue } from "../../base/errors.ts";
import { parseDuration } from "../../base/time.ts";
import type { PacketBatch } from "../../capture/batch.ts";
import { RECEIVER, type Scenario, SENDER } from "../../simulate/scenario.ts";

export interface ClockError {
  readonly offsetNs: number;
  readonly skewPpm: number;
  /** Amplitude of a slow wave, as of a clock that is steered, and its period. */
  readonly wanderNs: number;
  readonly periodNs: number;
}

export const NO_CLOCK_ERROR: ClockError = { offsetNs: 0, skewPpm: 0, wanderNs: 0, periodNs: 10e9 };

/** "offset=10us,skew=5,wander=2us,period=10s": skew in parts per million. */
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

/** Of a batch as it arrives: times, and delays made of them. */
export function applyClockError({ count, timeNs, delayNs }: PacketBatch, error: ClockError): void {
  for (let i = 0; i < count; i++) {
    const off = clockErrorAt(error, timeNs[i]!);
    timeNs[i]! += off;
    delayNs[i]! += off;
  }
}

/** Clocks of a scenario become the one error; what is random in them stays out. */
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
