/** Parameters of LDS and SDS: the geometry that both ends must share, and parameters of the answers. */

import { UsageError } from "../../base/errors.ts";
import { formatCount } from "../../base/quantity.ts";
import { saltedSeed } from "../cells/salt.ts";
import type { ParameterSpec, ParameterValues } from "../estimator.ts";
import { fingerprint, type Geometry } from "./geometry.ts";
import { DEFAULT_KEYS, MAX_KEYS } from "./heavy-keys.ts";
import type { Expected } from "./payload.ts";
import { parseWeights } from "./weights.ts";

export type Decoder = "auto" | "bp" | "background" | "smallest" | "alpha";

/** The parameters that LDS and SDS have in common. */
export interface SketchParameters extends ParameterValues {
  rows: number;
  columns: number;
  k: number;
  bytes: boolean;
  keys: number;
  weights: string;
  decoder: Decoder;
  alpha: number;
  rounds: number;
}

export interface LdsParameters extends SketchParameters {
  rates: readonly number[];
  digest: "0" | "8" | "16" | "32";
}

export const MAX_ROWS = 16;
export const MAX_COLUMNS = 1 << 24;
/** 512 MiB of memory at each point. Kernels have 4 GiB, and a single allocation is at most 1 GiB. */
export const MAX_CELLS = 1 << 25;

const DECODERS: readonly Decoder[] = ["auto", "bp", "background", "smallest", "alpha"];

function shape(k: number): readonly ParameterSpec[] {
  return [
    { name: "rows", kind: "integer", default: 4, min: 1, max: MAX_ROWS, help: "rows of cells" },
    { name: "columns", kind: "integer", default: 17_500, min: 1, max: MAX_COLUMNS, help: "cells per row" },
    {
      name: "k",
      kind: "integer",
      default: k,
      min: 1,
      max: 1024,
      help: "cells of a flow in each row: more tolerate more loss and give the standard deviation, fewer collide less; 1 where nothing is lost",
    },
  ];
}

const COUNTED: readonly ParameterSpec[] = [
  { name: "bytes", kind: "flag", default: false, help: "count bytes too (8 bytes of memory per cell)" },
  {
    name: "keys",
    kind: "integer",
    default: DEFAULT_KEYS,
    min: 0,
    max: MAX_KEYS,
    isNew: true,
    help: "flow keys kept per epoch, of the heaviest flows: a flow with more than a (keys + 1)th of all packets is always found; 0: none",
  },
  {
    name: "weights",
    kind: "text",
    default: "",
    help: "weights of flows by filter, such as 100:udp dst port 53;10:net 10.1.0.0/16; others weigh 1",
  },
];

const QUERY: readonly ParameterSpec[] = [
  {
    name: "decoder",
    kind: "choice",
    choices: DECODERS,
    default: "auto",
    queryOnly: true,
    help: "bp: all known flows together; background: one flow, the common mean taken out; smallest, alpha: the paper's; auto: the smallest predicted error",
  },
  {
    name: "alpha",
    kind: "number",
    default: 0.1,
    min: 0,
    max: 10,
    queryOnly: true,
    help: "decoder alpha: cells with up to this share more than the smallest are pooled",
  },
  {
    name: "rounds",
    kind: "integer",
    default: 40,
    min: 1,
    max: 1000,
    queryOnly: true,
    help: "decoder bp: maximum rounds",
  },
];

export const LDS_PARAMETERS: readonly ParameterSpec[] = [
  ...shape(5),
  {
    name: "rates",
    kind: "list",
    default: [],
    min: 0,
    max: 1,
    help: "share of packets that each row takes; if omitted: all where k=1, else rows from 1 down to 0.01, ready for loss",
  },
  {
    name: "digest",
    kind: "choice",
    choices: ["0", "8", "16", "32"],
    default: "16",
    help: "bits of digest per cell, so that equal counts of different packets are noticed",
  },
  ...COUNTED,
  ...QUERY,
];

export const SDS_PARAMETERS: readonly ParameterSpec[] = [...shape(1), ...COUNTED, ...QUERY];

/**
 * Rates of a multi-bank LDS (section 4.2): the paper's 1, 0.5, 0.1, 0.01 on the last four rows, others 1. With 1, 0.3, 0.05, 0.005, a flow of 10,000 packets at
 * 10 % loss would have a usable cell in 83 to 90 % of epochs instead of 37 to 52 %, but the segment's interval at 5 % loss would be 1.7 to 1.9 times as wide
 * (demo captures). Users with such flows can set these rates.
 */
function usualRates(rows: number, k: number): number[] {
  if (k === 1) return new Array<number>(rows).fill(1);
  const ladder = ({ 1: [1], 2: [1, 0.1], 3: [1, 0.5, 0.05] } as Record<number, number[]>)[rows];
  return ladder ?? [...new Array<number>(rows - 4).fill(1), 1, 0.5, 0.1, 0.01];
}

export function completeLds(values: ParameterValues): LdsParameters {
  const p = { ...values } as LdsParameters;
  check("lds", p);
  if (p.rates.length === 0) p.rates = usualRates(p.rows, p.k);
  else if (p.rates.length === 1) p.rates = new Array<number>(p.rows).fill(p.rates[0]!);
  if (p.rates.length !== p.rows) {
    throw new UsageError(
      "bad-parameter",
      `rows=${p.rows}, but rates has ${p.rates.length} values`,
      "give one rate per row",
      { parameter: "lds" },
    );
  }
  // Below this, the sampling threshold would no longer match the requested rate.
  if (p.rates.some((rate) => !(rate >= 1e-6))) {
    throw new UsageError("bad-parameter", "a rate must be at least 0.000001", "such as rates=1/.5/.1/.01", {
      parameter: "lds",
    });
  }
  return p;
}

export function completeSds(values: ParameterValues): SketchParameters {
  const p = { ...values } as SketchParameters;
  check("sds", p);
  return p;
}

function check(name: string, p: SketchParameters): void {
  if (p.k > p.columns) {
    throw new UsageError("bad-parameter", `k=${p.k} cells do not fit into ${p.columns} columns`, undefined, {
      parameter: name,
    });
  }
  if (p.rows * p.columns > MAX_CELLS) {
    throw new UsageError(
      "bad-parameter",
      `${p.rows} × ${formatCount(p.columns)} cells are too many`,
      `at most ${formatCount(MAX_CELLS)}`,
      { parameter: name },
    );
  }
  parseWeights(p.weights);
}

export function geometryOf(p: SketchParameters): Geometry {
  const rates = (p["rates"] as readonly number[] | undefined) ?? new Array<number>(p.rows).fill(1);
  return { rows: p.rows, columns: p.columns, k: p.k, rates, weights: p.weights };
}

/** The expected cells of payloads with these parameters (and this seed, if given). */
export function expectedCells(p: SketchParameters, delays: boolean, seed?: bigint): Expected {
  const shape = { rows: p.rows, columns: p.columns, delays, maxKeys: p.keys };
  if (seed === undefined) return shape;
  const geometry = geometryOf(p);
  return { ...shape, fingerprint: (salt) => fingerprint(geometry, saltedSeed(seed, salt)) };
}
