/** An alert, and the rules that make alerts. */
import type { CollectedSegment } from "../../collect/collector.ts";
import type { Condition } from "./condition.ts";
import type { WebhookOptions } from "./webhook.ts";

export interface AlertRule {
  name: string;
  /** The condition as written in the configuration. */
  when: string;
  condition: Condition;
  clear: number | null;
  segment: CollectedSegment | null;
  estimator: string | null;
  forNs: bigint;
  clearAfterNs: bigint;
  to: readonly string[];
}

export interface AlertSettings {
  rules: readonly AlertRule[];
  notify: readonly Omit<WebhookOptions, "onLog">[];
}

export const NO_ALERTS: AlertSettings = { rules: [], notify: [] };

/** An alert as it appears in answers and webhook messages (format hoptime.alert/1). */
export interface Alert {
  format: "hoptime.alert/1";
  id: string;
  name: string;
  when: string;
  state: "active" | "ended";
  /** `A:B`, a point, or the id of an incident. */
  target: string;
  /** When the condition first held, when the alert began and when it ended, in ns since 1970. */
  sinceNs: string;
  beganNs: string;
  endedNs: string | null;
  /** The worst value so far: a delay in ns or a share from 0 to 1. Null for incidents. */
  worst: number | null;
  summary: string;
  incident: unknown;
}
