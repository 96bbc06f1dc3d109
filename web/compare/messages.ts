/** Messages between the page and its worker. */
import type { CorrectionMode } from "../../src/clock/correction.ts";
import type { PageData } from "../../src/present/html/page-data.ts";
import type { PacketAnswer } from "../../src/query/packet/answer.ts";

/** Texts of the form's fields; they are parsed like options of the command line. */
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
  /** Two files, or one file with two points. */
  | { kind: "compare"; files: File[]; wishes: Wishes }
  /** Exports the last comparison. */
  | { kind: "export"; form: "json" | "csv" }
  /** Asks a collector's records for the delays of the capture's packets; only digests, times and sizes are sent. */
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
  /** `field`: the field of the form that has to be changed. */
  | { kind: "error"; problem: string; hint: string | null; field: string | null };
