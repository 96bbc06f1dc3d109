/**
 * Which way flows go of which no packet was matched, in captures of both directions: the opposite of the flow that answers them, or as other flows of their
 * hosts do, since a host is on one side of the segment. What is left counts as going from BEFORE to AFTER.
 */
import type { ExactMatcher } from "../match/matcher.ts";
import { hostNames } from "./ways.ts";

/** Flows with matched packets that are looked at for the sides of hosts. */
const MAX_FLOWS = 1 << 16;
/** A host's flows must lean to one side by so much. */
const LEAN = 0.5;

export function orientUnmatched(matcher: ExactMatcher): void {
  const { flows } = matcher;
  const open: number[] = [];
  const turned = new Map<number, 1 | 2>();
  for (let id = 0; id < flows.count; id++) {
    if (flows.direction(id) !== 0) continue;
    const other = matcher.reverseOf(id);
    const way = other >= 0 && flows.matched(other) > 0 ? flows.direction(other) : 0;
    if (way === 0) open.push(id);
    else turned.set(id, way === 1 ? 2 : 1);
  }
  if (open.length > 0) {
    const sideOf = sidesOfHosts(matcher, open);
    for (const id of open) {
      const [from, to] = hostsOf(matcher, id);
      const lean = sideOf(from) - sideOf(to);
      if (lean !== 0) turned.set(id, lean > 0 ? 1 : 2);
    }
  }
  matcher.turnUnmatched(turned);
}

type Host = string | number;

function hostsOf(matcher: ExactMatcher, id: number): [Host, Host] {
  const { words, at } = matcher.keyWords(id);
  return hostNames(words, at);
}

/** 1: at BEFORE's side, -1: at AFTER's, 0: not known; of the hosts of some flows. */
function sidesOfHosts(matcher: ExactMatcher, asked: readonly number[]): (host: Host) => number {
  const { flows } = matcher;
  const near = new Map<Host, { lean: number; all: number }>();
  for (const id of asked) for (const host of hostsOf(matcher, id)) near.set(host, { lean: 0, all: 0 });
  let looked = 0;
  for (let id = 0; id < flows.count && looked < MAX_FLOWS; id++) {
    if (flows.matched(id) === 0) continue;
    looked++;
    const sign = flows.direction(id) === 1 ? 1 : -1;
    const [from, to] = hostsOf(matcher, id);
    for (const [host, lean] of [
      [from, sign],
      [to, -sign],
    ] as const) {
      const known = near.get(host);
      if (!known) continue;
      known.lean += lean;
      known.all++;
    }
  }
  return (host) => {
    const { lean, all } = near.get(host) ?? { lean: 0, all: 0 };
    return Math.abs(lean) >= Math.max(1, LEAN * all) ? Math.sign(lean) : 0;
  };
}
