/** Creates and opens the structures by name: the only place that knows all of them. */
import type { Kernels } from "../../../base/kernels.ts";
import { CombStore } from "./comb.ts";
import { HashTableStore } from "./hash-table.ts";
import { MixedStore } from "./mixed.ts";
import type { PacketStore, StoreGeometry } from "./packet-store.ts";
import { PbfStore } from "./pbf.ts";
import { RibbonStore } from "./ribbon.ts";
import { SvbfStore } from "./svbf.ts";

/**
 * Returns an empty store of this many bits (the ribbon takes what it needs; for `mixed`, the bits per packet to save). `shares` as in Centres; only PBF uses it
 * and `expected`, the expected packets.
 */
export function createStore(
  kernels: Kernels,
  geometry: StoreGeometry,
  bits: number,
  shares: Float64Array | null = null,
  expected?: number,
): PacketStore {
  switch (geometry.kind) {
    case "ribbon":
      return new RibbonStore(kernels, geometry);
    case "mixed":
      return MixedStore.create(kernels, geometry, bits);
    case "svbf":
      return new SvbfStore(kernels, geometry, bits);
    case "comb":
      return new CombStore(kernels, geometry, bits);
    case "pbf":
      return new PbfStore(kernels, geometry, bits, shares, expected);
    case "table":
      return new HashTableStore(kernels, geometry, bits);
  }
}

/** Returns a closed store from its section of a payload. `counts` are the packets of each group. */
export function openStore(
  kernels: Kernels,
  geometry: StoreGeometry,
  body: Uint8Array,
  counts: ArrayLike<number>,
): PacketStore {
  switch (geometry.kind) {
    case "ribbon":
      return RibbonStore.open(kernels, geometry, body);
    case "mixed":
      return MixedStore.open(kernels, geometry, body);
    case "svbf":
      return SvbfStore.open(kernels, geometry, body, counts);
    case "comb":
      return CombStore.open(kernels, geometry, body, counts);
    case "pbf":
      return PbfStore.open(kernels, geometry, body, counts);
    case "table":
      return HashTableStore.open(kernels, geometry, body);
  }
}
