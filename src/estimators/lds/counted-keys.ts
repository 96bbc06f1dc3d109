/**
 * Selects the heaviest of the flows that the kernel counted (src/capture/ebpf/), with the same guarantee as the list that heavy-keys.ts makes from packets. If
 * all flows fitted, it is exact: with up to twice as many flows as keys, it equals the list from packets byte for byte; with more, it is closer (no flow has
 * missed packets). If flows from a hash on did not fit, each of them may have had all packets that were not counted, so the floor is at least that number.
 */
import type { KernelKept } from "../../capture/ebpf/kernel-plan.ts";
import { compareFlows, KEY_WORDS } from "../flow-keys.ts";
import { copyKey, emptyKeys, type HeavyKeys, mergeHeavyKeys } from "./heavy-keys.ts";

/** meta, four words of addresses, hash, packets, bytes. */
const FLOW_BYTES = 64;
const [HASH, PACKETS, BYTES] = [40, 48, 56];

export function heaviestOf({ flows, shed }: Pick<KernelKept, "flows" | "shed">, max: number): HeavyKeys {
  const raw = emptyKeys(flows.reduce((n, piece) => n + piece.length / FLOW_BYTES, 0));
  const shedPackets = Number(shed?.packets ?? 0n);
  let n = 0;
  for (const piece of flows) {
    const view = new DataView(piece.buffer, piece.byteOffset, piece.byteLength);
    for (let at = 0; at < piece.length; at += FLOW_BYTES, n++) {
      for (let w = 0; w < KEY_WORDS; w++) raw.keyWords[KEY_WORDS * n + w] = view.getUint32(at + 4 * w, true);
      for (const w of [0, 1]) raw.hash[2 * n + w] = view.getUint32(at + HASH + 4 * w, true);
      raw.packets[n] = Number(view.getBigUint64(at + PACKETS, true));
      raw.bytes[n] = Number(view.getBigUint64(at + BYTES, true));
      raw.missed[n] = shed && view.getBigUint64(at + HASH, true) >= shed.cut ? shedPackets : 0;
    }
  }
  const order = Uint32Array.from({ length: n }, (_, i) => i).sort((i, j) => compareFlows(raw, i, raw, j));
  const sorted = emptyKeys(n);
  for (const [i, from] of order.entries()) copyKey(raw, from, sorted, i);
  return mergeHeavyKeys({ ...sorted, floor: shedPackets }, emptyKeys(0), max);
}
