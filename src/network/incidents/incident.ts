/** A lasting rise of delay or loss on a path: which segment, since when, from what to what, and with what confidence. */
import type { Candidate } from "../localise/blame.ts";
import type { ClockStep } from "./clock-steps.ts";

export interface IncidentSegment {
  from: string;
  to: string;
}

export interface Incident {
  /** Made from its start, kind and place: the same after a restart. */
  id: string;
  /** `clock`: delays moved because a clock was set; no path became slower. */
  kind: "delay" | "loss" | "clock";
  /** Whose clock stepped, and by how much. */
  clock: ClockStep | null;
  state: "open" | "closed";
  /** Null: undecided; `reason` and `candidates` say more. */
  segment: IncidentSegment | null;
  /** Names of the paths on which it was seen. */
  paths: string[];
  /** ns since 1970: start of its first epoch; end of its last epoch so far. */
  startNs: bigint;
  endNs: bigint;
  /** When it was closed, in the epochs' time; null while open. */
  closedNs: bigint | null;
  /** `ordinary`: the values returned; `new-normal`: they did not, and now count as ordinary (a reroute). */
  ended: "ordinary" | "new-normal" | null;
  /** Delay in ns, loss as a share: before, at its worst, in the last epoch. Of the named segment, else of the path. */
  baseline: number;
  peak: number;
  now: number | null;
  /** Loss: packets sent and lost during it, and the share with its interval. */
  loss: { sent: number; lost: number; rate: number; low: number; high: number } | null;
  /** Probability that the segment is to blame; without a named segment, that of the most likely candidate. */
  confidence: number;
  /** Share of the path's rise that is the segment's own. */
  share: number | null;
  reason: string | null;
  candidates: Candidate[];
  /** The same segment has an incident of the other kind at the same time. */
  also: boolean;
}

export interface IncidentChange {
  change: "opened" | "updated" | "closed";
  incident: Incident;
}

export interface IncidentSettings {
  /** A segment is blamed from this probability on. */
  confidence: number;
  minShare: number;
  minRiseNs: number;
  /** Number of epochs that define what is ordinary. */
  windowEpochs: number;
  /** Minimum number of known epochs before anything is judged: a baseline of few epochs makes false alarms. */
  settleEpochs: number;
  /** Minimum number of epochs of a rise, and number of ordinary epochs that close an incident. */
  openAfter: number;
  closeAfter: number;
}

export const INCIDENT_SETTINGS: IncidentSettings = {
  confidence: 0.99,
  minShare: 0.2,
  minRiseNs: 10_000,
  windowEpochs: 300,
  settleEpochs: 60,
  openAfter: 3,
  closeAfter: 10,
};
