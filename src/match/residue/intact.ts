/**
 * Merged segments that both points captured alike: a sender's card cut them, and a receiver's merged the same packets again. Where others of the flow show how
 * long its packets are on the wire, these count as that many, too.
 */
import { keyHash } from "../../capture/flow/row-hash.ts";
import type { ExactMatcher } from "../matcher.ts";
import type { LongRows } from "./collect.ts";
import { TWICE_NS } from "./copies.ts";

export interface Intact {
  flow: number;
  timeNs: number;
  payload: number;
  /** Packets on the wire. */
  packets: number;
}

/** `wirePayload`: of a full packet on the wire, by flow. */
export function findIntact(
  matcher: ExactMatcher,
  long: readonly [LongRows, LongRows],
  wirePayload: ReadonlyMap<number, number>,
): Intact[] {
  const arrived = byIdentity(long[1], flowsByKey(matcher, wirePayload, 1));
  const found: Intact[] = [];
  for (const [name, { flow, payload, times }] of byIdentity(long[0], flowsByKey(matcher, wirePayload, 0))) {
    const packets = Math.ceil(payload / (wirePayload.get(flow) ?? payload));
    const both = Math.min(times.length, arrived.get(name)?.times.length ?? 0);
    if (packets < 2) continue;
    for (const timeNs of times.slice(0, both)) found.push({ flow, timeNs, payload, packets });
  }
  return found;
}

/** Returns the flows by the hash of their key at one point. */
function flowsByKey(
  matcher: ExactMatcher,
  flows: ReadonlyMap<number, number>,
  side: 0 | 1,
): Map<number, number> {
  const found = new Map<number, number>();
  for (const flow of flows.keys()) {
    const named = side === 1 && matcher.nat ? (matcher.mapped(flow) ?? flow) : flow;
    const { words, at } = matcher.keyWords(named);
    found.set(keyHash(words, at), flow);
  }
  return found;
}

/** Groups rows by flow and digest; copies right behind a packet are left out. */
function byIdentity(rows: LongRows, flows: ReadonlyMap<number, number>) {
  const found = new Map<string, { flow: number; payload: number; times: number[] }>();
  for (const [i, timeNs] of rows.timeNs.entries()) {
    const flow = flows.get(rows.keyHash[i] ?? 0);
    if (flow === undefined) continue;
    const name = `${flow},${rows.high[i]},${rows.low[i]}`;
    const same = found.get(name);
    if (!same) found.set(name, { flow, payload: rows.payload[i] ?? 0, times: [timeNs] });
    else if (timeNs - (same.times.at(-1) ?? 0) > TWICE_NS) same.times.push(timeNs);
  }
  return found;
}
