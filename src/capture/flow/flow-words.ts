/** Converts a flow key from text to the words and the hash that the kernels use. */
import { UsageError } from "../../base/errors.ts";
import { batchConstants } from "../../base/kernel-layout.ts";
import type { Kernels } from "../../base/kernels.ts";
import { requireAddress } from "../address.ts";
import type { FlowKey, FlowKeySpec } from "./flow-key.ts";
import { formatFlowKey, withoutPrefix } from "./flow-text.ts";

const { META_VLAN: VLAN_TAGGED, META_IPV6: IPV6, META_PORTS: PORTS } = batchConstants;

/** Returns ten uint32: meta, addrA .. addrD as [low, high], masked by the key. */
export function encodeFlowKey(spec: FlowKeySpec, key: FlowKey): Uint32Array {
  const [meta4, addresses4, meta6, ...masks6] = spec.maskWords();
  const address = (text: string | null) =>
    text === null ? null : requireAddress(withoutPrefix(text), `flow '${formatFlowKey(key)}'`);
  const src = address(key.src);
  const dst = address(key.dst);
  if (src && dst && src.version !== dst.version) {
    throw new UsageError("bad-key", `flow '${formatFlowKey(key)}': one address is IPv4, the other IPv6`);
  }
  const v6 = (src ?? dst)?.version === 6;
  let meta = (BigInt(key.sport ?? 0) << 16n) | BigInt(key.dport ?? 0);
  meta |= BigInt(key.proto ?? 0) << 32n;
  if (key.sport !== null || key.dport !== null) meta |= PORTS;
  if (key.dscp !== undefined) meta |= BigInt(key.dscp) << 40n;
  if (key.vlan !== undefined) meta |= VLAN_TAGGED | (BigInt(key.vlan) << 46n);
  if (v6) meta |= IPV6;
  const pair = (high: number, low: number) => (BigInt(high) << 32n) | BigInt(low);
  const halves = ([a = 0, b = 0, c = 0, d = 0]: readonly number[] = []) => [pair(a, b), pair(c, d)];
  const words: bigint[] = [meta & (v6 ? meta6 : meta4)];
  if (v6) {
    const [s, d] = [halves(src?.words), halves(dst?.words)];
    for (const [i, half] of [...s, ...d].entries()) words.push(half & (masks6[i] ?? 0n));
  } else {
    words.push(pair(src?.words[0] ?? 0, dst?.words[0] ?? 0) & addresses4, 0n, 0n, 0n);
  }
  requireFields(spec, key, meta4);
  return Uint32Array.from(words.flatMap((w) => [Number(w & 0xffff_ffffn), Number(w >> 32n)]));
}

/** Returns the hash of a key's words as [low, high]. */
export function hashFlowKey(kernels: Kernels, words: Uint32Array, seed: bigint): [low: number, high: number] {
  const at = kernels.alloc(40);
  kernels.u32.set(words, at >>> 2);
  const hash = BigInt.asUintN(64, kernels.call.hashKey(at, BigInt.asIntN(64, seed)) as bigint);
  kernels.free(at);
  return [Number(hash & 0xffff_ffffn), Number(hash >> 32n)];
}

/** Throws if the key misses a field of the flow key: its hash would silently name another flow. */
function requireFields(spec: FlowKeySpec, key: FlowKey, meta: bigint): void {
  const missing: string[] = [];
  const [, addresses] = spec.maskWords();
  if (addresses >> 32n !== 0n && key.src === null) missing.push("a source address");
  if ((addresses & 0xffff_ffffn) !== 0n && key.dst === null) missing.push("a destination address");
  if ((meta & (0xffn << 32n)) !== 0n && key.proto === null) missing.push("a protocol");
  if (missing.length === 0) return;
  throw new UsageError(
    "bad-key",
    `flow '${formatFlowKey(key)}' lacks ${missing.join(" and ")}, and flows are identified by ${spec.text}`,
    "write it as 'tcp 10.0.0.1:443 > 10.0.0.9:51000'",
  );
}
