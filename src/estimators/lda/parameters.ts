/** Parameters of an LDA: the geometry that both ends must share, and parameters of the answer. */
import { UsageError } from "../../base/errors.ts";
import type { ParameterSpec, ParameterValues } from "../estimator.ts";
import {
  checkSampling,
  DEFAULT_COUNTERS,
  leadingZeroSampling,
  MAX_BANKS,
  PRESET_LOSS,
  tunedSampling,
} from "./sampling.ts";

export interface LdaParameters extends ParameterValues {
  banks: number;
  rows: number;
  packets: number;
  loss: readonly number[];
  alpha: number;
  sampling: readonly number[];
  digest: boolean;
  deviation: "residual" | "paper";
  interval: "student" | "bound";
}

export const LDA_PARAMETERS: readonly ParameterSpec[] = [
  {
    name: "banks",
    kind: "integer",
    default: 0,
    min: 0,
    max: MAX_BANKS,
    help: "banks, each tuned to a loss rate; 0: two where packets= is given, else four",
  },
  {
    name: "rows",
    kind: "integer",
    default: 0,
    min: 0,
    max: 1 << 20,
    help: "rows per bank; 0: 1024 shared by the banks",
  },
  {
    name: "packets",
    kind: "number",
    default: 0,
    min: 0,
    max: 1e12,
    help: "packets expected per epoch, to tune the sampling; 0: unknown, all packets are sampled in banks a power of 1/2 apart",
  },
  {
    name: "loss",
    kind: "list",
    default: [],
    min: 0,
    max: 1,
    help: "loss rates the banks are tuned to, needs packets=; if omitted: 0.005/0.1, or the usual ones of three or four banks",
  },
  {
    name: "alpha",
    kind: "number",
    default: 1,
    min: 0.01,
    max: 10,
    help: "losses per row that a tuned bank expects; 1 gives the largest sample, the paper uses 0.5",
  },
  {
    name: "sampling",
    kind: "list",
    default: [],
    min: 0,
    max: 1,
    help: "sampling probability of each bank, instead of what loss and packets give",
  },
  {
    name: "digest",
    kind: "flag",
    default: true,
    help: "a digest per row, so that rows with equal counts of different packets are noticed",
  },
  {
    name: "deviation",
    kind: "choice",
    choices: ["residual", "paper"],
    default: "residual",
    queryOnly: true,
    help: "how the standard deviation is estimated: from the rows' residuals, or by collapsing rows (the paper's equation 5)",
  },
  {
    name: "interval",
    kind: "choice",
    choices: ["student", "bound"],
    default: "student",
    queryOnly: true,
    help: "interval of the mean: from its standard error, or the paper's bound (1), which is wider",
  },
];

export function completeLda(values: ParameterValues): LdaParameters {
  const p = { ...values } as LdaParameters;
  const wrong = (message: string, hint: string) =>
    new UsageError("bad-parameter", message, hint, { parameter: "lda" });
  if (p.sampling.length > 0) {
    checkSampling(p.sampling);
    if (p.banks !== 0 && p.banks !== p.sampling.length) {
      throw wrong(
        `banks=${p.banks}, but sampling has ${p.sampling.length} values`,
        "give one probability per bank",
      );
    }
    p.banks = p.sampling.length;
  } else if (p.loss.length > 0) {
    if (p.packets === 0) throw wrong("loss= needs packets=", "give the expected number of packets per epoch");
    if (p.banks !== 0 && p.banks !== p.loss.length) {
      throw wrong(`banks=${p.banks}, but loss has ${p.loss.length} values`, "give one loss rate per bank");
    }
    p.banks = p.loss.length;
  } else if (p.packets > 0) {
    if (p.banks === 0) p.banks = 2;
    const preset = PRESET_LOSS[p.banks];
    if (!preset)
      throw wrong(`banks=${p.banks}: no default loss rates`, "give loss=, one rate per bank, such as 0.01");
    p.loss = preset;
  } else if (p.banks === 0) p.banks = 4;
  if (p.banks > MAX_BANKS) throw wrong(`${p.banks} banks are too many`, `at most ${MAX_BANKS}`);
  if (p.rows === 0) p.rows = Math.floor(DEFAULT_COUNTERS / p.banks);
  if (p.sampling.length === 0) {
    p.sampling =
      p.loss.length > 0 ? tunedSampling(p.packets, p.loss, p.rows, p.alpha) : leadingZeroSampling(p.banks);
  }
  if (p.rows < 2) throw wrong("a bank needs at least two rows", "such as rows=512");
  return p;
}
