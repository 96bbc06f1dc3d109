/** Flow keys of synthetic traffic, in the form that the kernels read (kernels/simulate/keys.ts). */
import { UsageError } from "../base/errors.ts";
import type { Kernels } from "../base/kernels.ts";
import { parseAddress } from "../capture/address.ts";
import type { KeyPlan, Prefix, Sizes } from "./scenario.ts";

const SIXTEEN = Array.from({ length: 16 }, (_, i) => i);
const DEFAULT_SOURCES: Prefix[] = SIXTEEN.map((i) => ({ prefix: `10.${i}.0.0/16`, share: 1 / (1 + i) }));
const DEFAULT_TARGETS: Prefix[] = SIXTEEN.map((i) => ({
  prefix: `172.${16 + i}.0.0/16`,
  share: 1 / (1 + i),
}));

export const DEFAULT_SIZES: Required<Sizes> = { share1500: 0.41, share576: 0.15, mixing: 0.3 };

/** Writes f64 fields in order, starting at an address. */
export function writeFields(kernels: Kernels, address: number, values: readonly number[]): void {
  kernels.f64.set(values, address >>> 3);
}

/** Stores the tables in kernel memory; returns their address and a function that frees them. */
export function storeKeys(kernels: Kernels, plan: KeyPlan = {}): { address: number; free: () => void } {
  const sources = storePrefixes(kernels, plan.sources ?? DEFAULT_SOURCES);
  const targets = storePrefixes(kernels, plan.targets ?? DEFAULT_TARGETS);
  const classes = plan.classes ?? [{ dscp: 0, share: 1 }];
  if (classes.length === 0 || classes.some((c) => !(c.dscp >= 0 && c.dscp < 64)))
    throw new UsageError("bad-parameter", "classes: each needs a DSCP from 0 to 63");
  const classTable = storeTable(
    kernels,
    classes.map((c) => ({ first: c.dscp, second: 0, share: c.share })),
  );
  const address = kernels.alloc(7 * 8);
  writeFields(kernels, address, [
    sources.count,
    sources.address,
    targets.count,
    targets.address,
    classes.length,
    classTable,
    plan.udpShare ?? 0.15,
  ]);
  return {
    address,
    free: () => {
      for (const a of [sources.address, targets.address, classTable, address]) kernels.free(a);
    },
  };
}

function storePrefixes(kernels: Kernels, prefixes: Prefix[]): { address: number; count: number } {
  if (prefixes.length === 0) throw new UsageError("bad-parameter", "at least one prefix is needed");
  const rows = prefixes.map(({ prefix, share }) => {
    const [text, bits] = prefix.split("/");
    const parsed = parseAddress(text ?? "");
    const length = bits === undefined ? 32 : Number(bits);
    if (parsed?.version !== 4 || !Number.isInteger(length) || length < 1 || length > 32)
      throw new UsageError(
        "bad-parameter",
        `'${prefix}' is not an IPv4 prefix`,
        "write it like 10.1.0.0/16 (lengths 1 to 32)",
      );
    const hosts = 2 ** (32 - length);
    return {
      first: Math.floor(parsed.words[0]! / hosts) * hosts,
      second: hosts,
      share: share ?? 1,
    };
  });
  return { address: storeTable(kernels, rows), count: rows.length };
}

function storeTable(kernels: Kernels, rows: { first: number; second: number; share: number }[]): number {
  const total = rows.reduce((sum, r) => sum + r.share, 0);
  if (!(total > 0) || rows.some((r) => !(r.share >= 0)))
    throw new UsageError("bad-parameter", "shares must not be negative, and one must be above 0");
  const address = kernels.alloc(16 * rows.length);
  let cumulative = 0;
  rows.forEach((r, i) => {
    cumulative += r.share / total;
    kernels.u32[(address >>> 2) + 4 * i] = r.first;
    kernels.u32[(address >>> 2) + 4 * i + 1] = r.second;
    kernels.f64[(address >>> 3) + 2 * i + 1] = cumulative;
  });
  return address;
}
