/** The corrections that the second look makes: counts of flows and intervals, and rows of the packet log. */
import type { CorrectedCount } from "../flow-result.ts";
import type { ExactMatcher } from "../matcher.ts";
import { FATE, type ResolvedRow } from "../packet-log.ts";
import type { LonePacket } from "./collect.ts";

/** What was found. */
export interface Resolved {
  /** `unassigned`: pieces of datagrams of which too little was captured, by the point where they are sent. */
  merged: {
    flows: number;
    packets: number;
    bytes: number;
    longest: [number, number];
    unassigned: [number, number];
  };
  fragmented: { packets: number; incomplete: number };
  clamped: { packets: number; from: number; to: number };
}

export type Sides = [LonePacket[], LonePacket[]];

/** Returns the flow counter that includes a packet without a partner. */
export function countOf(fate: number): CorrectedCount {
  if (fate === FATE.headBefore) return "headBefore";
  if (fate === FATE.tailBefore) return "tailBefore";
  if (fate === FATE.headAfter) return "headAfter";
  if (fate === FATE.tailAfter) return "tailAfter";
  return fate === FATE.onlyBefore ? "lost" : "appeared";
}

export class Corrections {
  readonly done = new Set<LonePacket>();
  readonly resolved: Resolved = {
    merged: { flows: 0, packets: 0, bytes: 0, longest: [0, 0], unassigned: [0, 0] },
    fragmented: { packets: 0, incomplete: 0 },
    clamped: { packets: 0, from: 0, to: 0 },
  };
  readonly matcher: ExactMatcher;
  readonly windowNs: number;

  constructor(matcher: ExactMatcher, windowNs: number) {
    this.matcher = matcher;
    this.windowNs = windowNs;
  }

  /** Returns the point where a flow's packets are sent. */
  sender(flow: number): 0 | 1 {
    return this.matcher.flows.direction(flow) === 2 ? 1 : 0;
  }

  /** Marks a packet as matched: another row of the packet log replaces it. */
  settle(p: LonePacket): void {
    this.done.add(p);
    this.matcher.packets?.replaceLone(p);
    this.recount(p, -1);
  }

  /** Changes the count of what this packet was classified as. The packet itself is no longer in doubt. */
  recount(p: LonePacket, change: number): void {
    this.matcher.flows.correct(p.flow, { [countOf(p.fate)]: change, undecided: p.doubted ? -1 : 0 });
    if (p.fate === FATE.onlyBefore && this.sender(p.flow) === 0) this.matcher.correctLost(p.timeNs, change);
  }

  pair(flow: number, sender: 0 | 1, { sent, arrived }: Record<"sent" | "arrived", LonePacket>): void {
    this.settle(sent);
    this.settle(arrived);
    const [before, after] = sender === 0 ? [sent, arrived] : [arrived, sent];
    this.matcher.addPair(flow, before.timeNs, after.timeNs);
  }

  /** Adds a row of a packet at one point only. */
  noteAlone(
    { side, timeNs, flow }: Pick<LonePacket, "side" | "timeNs" | "flow">,
    fate: number,
    packets: number,
    frame: number | null,
  ): void {
    const [beforeNs, afterNs] = side === 0 ? [timeNs, Number.NaN] : [Number.NaN, timeNs];
    const frames = frame === null ? null : { before: frame, after: frame };
    this.note({ beforeNs, afterNs, flow, fate, packets, frames });
  }

  note(row: ResolvedRow): void {
    this.matcher.packets?.add(row);
  }
}
