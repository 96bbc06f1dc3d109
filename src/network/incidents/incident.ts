/** A rise of delay or loss on a path that lasted: which segment, since when, from what to what, how sure. */
import type { Candidate } from "../localise/blame.ts";
import type { ClockStep } from "./clock-steps.ts";

export interface IncidentSegment {
  from: string;
  to: string;
}

export interface Incident {
  /** Made of its beginning, its kind and its place: the same after a restart. */
  id: string;
  /** `clock`: delays moved because a clock was set; no path became slower. */
  kind: "delay" | "loss" | "clock";
  /** Whose clock, and by how much. */
  clock: ClockStep | null;
  state: "open" | "closed";
  /** Null: undecided; `reason` and `candidates` say more. */
  segment: IncidentSegment | null;
  /** Names of the paths that it was seen on. */
  paths: string[];
  /** ns since 1970: its first epoch begins; its last epoch so far ends. */
  startNs: bigint;
  endNs: bigint;
  /** When it was closed, in the epochs' time; null while it is open. */
  closedNs: bigint | null;
  /** `ordinary`: the values came back; `new-normal`: they did not, and are ordinary by now (a reroute). */
  ended: "ordinary" | "new-normal" | null;
  /** Delay in ns, loss as a share: before, at its worst, in the last epoch. Of the segment where it is named, else of the path. */
  baseline: number;
  peak: number;
  now: number | null;
  /** Loss: sent and lost while it lasts, and the share with its interval. */
  loss: { sent: number; lost: number; rate: number; low: number; high: number } | null;
  /** Probability that the segment is to blame; of the likeliest candidate where none is named. */
  confidence: number;
  /** Of the path's rise that is the segment's own. */
  share: number | null;
  reason: string | null;
  candidates: Candidate[];
  /** The same segment is blamed for the other kind at the same time. */
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
  /** Epochs that say what is ordinary. */
  windowEpochs: number;
  /** Epochs that must be known before anything is judged: a baseline of few makes false alarms. */
  settleEpochs: number;
  /** Epochs that a rise must last, and ordinary epochs that end an incident. */
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
