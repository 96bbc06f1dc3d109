// Draws 5-tuples from prefixes, and packet lengths.

import { META_PORTS } from "../decode/batch";
import { below, next64, Rng, uniform } from "./random";

/** Written by TypeScript (src/simulate/keys.ts). Tables have 16 bytes per entry: two u32, then the cumulative share as f64. */
@unmanaged
export class Keys {
  sources: f64; //     number of source prefixes
  sourceTable: f64; // u32 first address, u32 hosts (a power of two)
  targets: f64;
  targetTable: f64;
  classes: f64;
  classTable: f64; //  u32 DSCP, u32 0
  udpShare: f64;
}

// @ts-ignore: decorator
@inline
function pick(rng: Rng, table: usize, count: u32): usize {
  if (count == 1) return table;
  const u = uniform(rng);
  let low: u32 = 0;
  let high = count - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (load<f64>(table + (middle << 4), 8) <= u) low = middle + 1;
    else high = middle;
  }
  return table + (low << 4);
}

/** Draws an address of a prefix. Hosts are chosen log-uniformly: a few are popular, most are not. */
// @ts-ignore: decorator
@inline
function address(rng: Rng, entry: usize): u32 {
  const hosts = load<u32>(entry, 4);
  if (hosts <= 1) return load<u32>(entry);
  const rank = <u32>Math.exp(uniform(rng) * Math.log(<f64>hosts)) - 1;
  // Spread popular hosts over the prefix: multiplication by an odd number is a bijection of the host part.
  return load<u32>(entry) + (((rank + 1) * 0x9e3779b1) & (hosts - 1));
}

/** Writes an address pair and a meta word (columns addrA and meta) at `p`. */
export function drawKey(keysAt: usize, rng: Rng, p: usize): void {
  const keys = changetype<Keys>(keysAt);
  const bits = next64(rng);
  const udp = <f64>(<u32>bits) * 2.3283064365386963e-10 < keys.udpShare;
  const choice = <u32>(bits >> 32) & 15;
  const service: u64 = choice < 8 ? 443 : choice < 11 ? 80 : choice < 13 ? 53 : choice < 14 ? 22 : choice < 15 ? 25 : 8080;
  const port: u64 = 1024 + <u64>below(rng, 64512);
  // Half of the flows go from a client to a service, half come back.
  const ports: u64 = bits >> 63 != 0 ? (port << 16) | service : (service << 16) | port;
  const dscp: u64 = load<u32>(pick(rng, <usize>keys.classTable, <u32>keys.classes));
  const source = address(rng, pick(rng, <usize>keys.sourceTable, <u32>keys.sources));
  const target = address(rng, pick(rng, <usize>keys.targetTable, <u32>keys.targets));
  store<u64>(p, (<u64>source << 32) | <u64>target);
  store<u64>(p, META_PORTS | ports | ((udp ? <u64>17 : <u64>6) << 32) | (dscp << 40), 8);
}

/** Draws a packet length: 40 or 52, 576, 1500 bytes. It is the flow's usual one (profile 0, 1, 2) or, for a share of packets, drawn from the shares. */
// @ts-ignore: decorator
@inline
export function drawLength(rng: Rng, profile: u32, share1500: f64, share576: f64, mixing: f64): u32 {
  const bits = next64(rng);
  const u = <f64>(<u32>bits) * 2.3283064365386963e-10;
  let kind = profile;
  if (u < mixing) {
    const v = u / mixing;
    kind = v < share1500 ? 2 : v < share1500 + share576 ? 1 : 0;
  }
  return kind == 2 ? 1500 : kind == 1 ? 576 : bits >> 63 != 0 ? 52 : 40;
}
