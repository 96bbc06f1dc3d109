/** Tables and figures of the papers that are not reproduced, with reasons. */
import type { Paper } from "./study.ts";

export interface LeftOut {
  readonly paper: Paper;
  readonly where: string;
  readonly why: string;
}

const DRAWING = "drawings of the structure or algorithms as text: nothing is measured in them";

export const LEFT_OUT: readonly LeftOut[] = [
  { paper: "lda", where: "figs. 1–3", why: DRAWING },
  { paper: "lds", where: "figs. 1–6", why: DRAWING },
  {
    paper: "lds",
    where: "figs. 7 and 8",
    why: "delays of the original trace, which is not public; the two latencies that they show (100 and 320 µs) are those of our flows",
  },
  { paper: "rli", where: "fig. 4", why: DRAWING },
  {
    paper: "rli",
    where: "table I, rows of CHIC and SANJ",
    why: "facts of CAIDA's traces; the same facts of our traffic are in rli-table1",
  },
  { paper: "maple", where: "figs. 1–3", why: DRAWING },
  {
    paper: "maple",
    where: "fig. 8(b), captures of a data centre",
    why: "the captures are not public; identifications counted by host and by flow stand for them",
  },
  { paper: "colate", where: "fig. 1 and table 1", why: DRAWING },
  {
    paper: "colate",
    where: "table 2, and fig. 5 of CHIC, ICSI and DC",
    why: "facts of the original traces; flow sizes of our traffic are in colate-5",
  },
];
