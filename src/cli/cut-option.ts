/** `--epoch` and `--cut`: how epochs are cut. */
import { invalidValue, UsageError } from "../base/errors.ts";
import { parseDuration } from "../base/time.ts";
import type { CutChoice } from "../observe/lane.ts";
import { named } from "./options.ts";

export const CUTS = ["aligned", "control", "delimited"] as const;
export type Cut = (typeof CUTS)[number];

/** Minimum length of an epoch. Every epoch is one file per estimator, so shorter ones would take minutes to write for one second of capture. */
const MIN_EPOCH_NS = 1_000_000;
const MIN_EPOCH_PACKETS = 16;

/** Parses `1s` as aligned and `65536p` as delimited; --cut must agree. */
export function parseCut(epoch: string | undefined, cut: Cut | undefined, controlTo?: string): CutChoice {
  const packets = epoch === undefined ? null : /^(\d+)p$/.exec(epoch.trim());
  const mode = cut ?? (packets ? "delimited" : "aligned");
  if (controlTo !== undefined && mode !== "control")
    throw new UsageError("bad-option", "--control-to needs --cut control");
  if (mode === "control") {
    if (controlTo !== undefined && !packets)
      return { mode, send: { to: controlTo, lengthNs: lengthOf(epoch) } };
    if (epoch !== undefined)
      throw new UsageError(
        "bad-option",
        "--epoch: not with --cut control, where Start and End messages delimit epochs; a time with --control-to, which sends them",
      );
    return { mode };
  }
  if (mode === "delimited") {
    const every = epoch === undefined ? 65_536 : Number(packets?.[1] ?? Number.NaN);
    if (!(every >= MIN_EPOCH_PACKETS && every <= 2 ** 31)) {
      const range = `from ${MIN_EPOCH_PACKETS}p to 2147483648p`;
      throw invalidValue("epoch", epoch, `packets for --cut delimited, ${range}, e.g. 65536p`);
    }
    return { mode, every };
  }
  if (packets) throw invalidValue("epoch", epoch, "a time for --cut aligned, e.g. 1s or 250ms");
  return { mode, lengthNs: lengthOf(epoch) };
}

function lengthOf(epoch = "1s"): bigint {
  const ns = named("--epoch", epoch, parseDuration);
  if (!(ns >= MIN_EPOCH_NS)) throw invalidValue("epoch", epoch, "at least 1ms", { code: "bad-time" });
  return BigInt(ns);
}
