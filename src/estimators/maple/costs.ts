/** The purpose of a payload's bytes. `observe` and every answer about packets report it, so that users can omit what they do not need. */
import { codeBitsOf } from "./dimension.ts";
import { type PartHead, SECTIONS } from "./payload.ts";
import { isBuilt } from "./stores/packet-store.ts";

/** Returns bytes by purpose: store (group numbers), check (against false positives), flows (the index), sums (of groups, and heads). */
export function costsOf(heads: readonly PartHead[], payloadBytes: number): Record<string, number> {
  const costs = { store: 0, check: 0, flows: 0, sums: payloadBytes };
  for (const { geometry, sections, k } of heads) {
    const stores = sections.digest.bytes + sections["flow-ipid"].bytes;
    const check = isBuilt(geometry.kind)
      ? (stores * (geometry.codeBits - codeBitsOf(k))) / geometry.codeBits
      : 0;
    costs.store += stores - check;
    costs.check += check;
    costs.flows += sections.index.bytes;
    for (const name of SECTIONS) if (name !== "cells") costs.sums -= sections[name].bytes;
  }
  return costs;
}
