/** What the page and its worker say to each other. */
import type { CorrectionMode } from "../../src/clock/correction.ts";
import type { PageData } from "../../src/present/html/page-data.ts";
import type { PacketAnswer } from "../../src/query/packet/answer.ts";

/** As they stand in the form; texts are read as the command line reads them. */
export interface Wishes {
  window: string;
  epoch: string;
  clock: CorrectionMode;
  key: string;
  filter: string;
  inner: boolean;
  nat: boolean;
}

export type Order =
  /** One file: its two points. */
  | { kind: "compare"; files: File[]; wishes: Wishes }
  /** Of the comparison that was made last. */
  | { kind: "export"; form: "json" | "csv" }
  /** Delays of the capture's packets, from the records of a collector: only digests, times and sizes are sent there. */
  | { kind: "packets"; file: File; collector: string; token: string; question: AskedCapture };

export interface AskedCapture {
  point: string;
  segment: string | undefined;
  filter: string;
  group: string | undefined;
  top: number;
  worst: number;
}

export type Answer =
  | { kind: "progress"; doneBytes: number; totalBytes: number | null; packets: number }
  | { kind: "report"; data: PageData; seconds: number; captures: [string, string] }
  | { kind: "export"; form: "json" | "csv"; blob: Blob }
  | { kind: "packets"; answer: PacketAnswer }
  /** `field`: the field of the form that is to be changed. */
  | { kind: "error"; problem: string; hint: string | null; field: string | null };
