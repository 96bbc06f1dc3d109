/**
 * Directions of flows without matched packets: opposite to the flow that answers them; or like other flows of their hosts, because a host is on one side of the
 * segment; or like hosts joined with theirs by other flows (host-sides.ts). If packets go both ways, two flows that answer each other and were each seen at one
 * point only were sent where they were seen: loss is likelier than packets from nowhere; and hosts are on the side of others of their subnet. The rest counts
 * as going from BEFORE to AFTER.
 */
import type { ExactMatcher } from "../match/matcher.ts";
import { type Host, HostSides, hostNames } from "./host-sides.ts";

/** Maximum number of flows with matched packets examined for the sides of hosts. */
const MAX_FLOWS = 1 << 16;
/** A host's flows must lean to one side by at least this share. */
const LEAN = 0.5;
/**
 * If all matched packets go one way: flows that are always examined, and beyond them the minimum share of undecided flows that makes examining more worthwhile.
 */
const MAX_LOOKED_AT = 20_000;
const MANY_OPEN = 0.01;

/** Returns true if flows without matched packets go from AFTER to BEFORE. */
export function orientUnmatched(matcher: ExactMatcher, twoWay: boolean): boolean {
  const open = openFlows(matcher);
  if (open.length === 0) return false;
  if (!twoWay && matcher.flowCount > MAX_LOOKED_AT && open.length < MANY_OPEN * matcher.flowCount)
    return false;
  if (!twoWay && noneMayGoBack(matcher, open)) return false;
  const sides = groupsOf(matcher);
  if (!twoWay && (answersGoAlong(matcher) || sides.orders.some(({ ways }) => ways[0] > 0 && ways[1] > 0)))
    return false;
  const turned = new Map<number, 1 | 2>();
  const names = namesBefore(matcher);
  const left = open.filter((id) => {
    const way = wayOfAnswer(matcher, id, names);
    if (way !== 0) turned.set(id, way === 1 ? 2 : 1);
    return way === 0;
  });
  orientByHosts(matcher, left, turned);
  orientByGroups(
    left.filter((id) => !turned.has(id)),
    sides,
    turned,
  );
  if (twoWay) {
    const stillOpen = () => left.filter((id) => !turned.has(id));
    orientByLoss(matcher, stillOpen(), turned);
    orientByHosts(matcher, stillOpen(), turned, subnetOf);
  }
  matcher.turnUnmatched(turned);
  return [...turned.values()].includes(2);
}

/** Returns whether flows and their answers go the same way: hosts are on no side. */
function answersGoAlong(matcher: ExactMatcher): boolean {
  for (const [id, other] of matcher.peers(Number.POSITIVE_INFINITY))
    if (matcher.flows.direction(id) === matcher.flows.direction(other)) return true;
  return false;
}

/** Returns the only point at which a flow was seen. */
function onlyAt(matcher: ExactMatcher, id: number): "before" | "after" | null {
  const { sent, received } = matcher.flow(id);
  return sent > 0 && received === 0 ? "before" : received > 0 && sent === 0 ? "after" : null;
}

function orientByLoss(matcher: ExactMatcher, open: readonly number[], turned: Map<number, 1 | 2>): void {
  const isOpen = new Set(open);
  for (const id of open) {
    const other = matcher.reverseOf(id);
    if (!isOpen.has(other) || onlyAt(matcher, id) !== "before" || onlyAt(matcher, other) !== "after")
      continue;
    turned.set(id, 1);
    turned.set(other, 2);
  }
}

/** 24 bits of an IPv4 address, 64 of an IPv6 address. */
function subnetOf(host: Host): Host {
  return typeof host === "number" ? host >>> 8 : host.split(":", 2).join(":");
}

/**
 * Returns whether all matched packets go one way and no host contradicts that for an open flow: no source of an open flow receives packets, and no destination
 * of one sends any. Then all hosts joined by flows are on the side that their packets show. This is the usual case, and saves most of the work.
 */
function noneMayGoBack(matcher: ExactMatcher, open: readonly number[]): boolean {
  const from = new Set<Host>();
  const to = new Set<Host>();
  for (const id of open) {
    const [source, target] = hostsOf(matcher, id);
    from.add(source);
    to.add(target);
  }
  for (const host of from) if (to.has(host)) return false;
  const { flows } = matcher;
  for (let id = 0; id < flows.count; id++) {
    if (flows.matched(id) === 0) continue;
    const [source, target] = hostsOf(matcher, id);
    if (to.has(source) || from.has(target)) return false;
  }
  return true;
}

function openFlows({ flows }: ExactMatcher): number[] {
  const open: number[] = [];
  for (let id = 0; id < flows.count; id++) if (flows.direction(id) === 0) open.push(id);
  return open;
}

/** Maps flows that have another key at the second point (address translation) to their key at the first point. */
function namesBefore(matcher: ExactMatcher): Map<number, number> {
  const names = new Map<number, number>();
  if (!matcher.nat) return names;
  for (let id = 0; id < matcher.flowCount; id++) {
    const after = matcher.mapped(id);
    if (after !== null && after !== id) names.set(after, id);
  }
  return names;
}

/** Returns the direction of the flow that answers this one; 0 if none was matched. */
function wayOfAnswer(matcher: ExactMatcher, id: number, namesBefore: ReadonlyMap<number, number>): 0 | 1 | 2 {
  const answer = matcher.reverseOf(id);
  const other = namesBefore.get(answer) ?? answer;
  return other >= 0 && matcher.flows.matched(other) > 0 ? matcher.flows.direction(other) : 0;
}

function orientByHosts(
  matcher: ExactMatcher,
  open: readonly number[],
  turned: Map<number, 1 | 2>,
  partOf?: (host: Host) => Host,
): void {
  if (open.length === 0) return;
  const sideOf = sidesOfHosts(matcher, open, partOf);
  for (const id of open) {
    const [from, to] = hostsOf(matcher, id);
    const lean = sideOf(from) - sideOf(to);
    if (lean !== 0) turned.set(id, lean > 0 ? 1 : 2);
  }
}

function orientByGroups(
  open: readonly number[],
  { sides, orders }: Groups,
  turned: Map<number, 1 | 2>,
): void {
  // Flows without matches join the remaining hosts.
  for (const id of turned.keys()) sides.addUnsure(id);
  for (const id of open) sides.addUnsure(id);
  const ways = new Map<number, [number, number]>();
  for (const { flow, ways: own } of orders) {
    const place = sides.placeOf(flow);
    if (!place) continue;
    const so = ways.get(place.group) ?? [0, 0];
    const forwardOrder = place.order === 0 ? own : [own[1], own[0]];
    ways.set(place.group, [so[0] + (forwardOrder[0] ?? 0), so[1] + (forwardOrder[1] ?? 0)]);
  }
  for (const id of open) {
    const place = sides.placeOf(id);
    const [zero, one] = (place && ways.get(place.group)) ?? [0, 0];
    if (place && Math.abs(zero - one) >= Math.max(1, LEAN * (zero + one)))
      turned.set(id, zero > one === (place.order === 0) ? 1 : 2);
  }
}

interface Groups {
  sides: HostSides;
  /** Per group: one of its flows, and how many of its flows are evidence for that flow's order going from BEFORE to AFTER, and against it. */
  orders: { flow: number; ways: [number, number] }[];
}

/** Groups of hosts joined by flows with matched packets. */
function groupsOf(matcher: ExactMatcher): Groups {
  const { flows } = matcher;
  const sides = new HostSides(matcher);
  const matched: number[] = [];
  for (let id = 0; id < flows.count && matched.length < MAX_FLOWS; id++) {
    if (flows.matched(id) === 0) continue;
    matched.push(id);
    sides.add(id);
  }
  const groups = new Map<number, { flow: number; order: 0 | 1; ways: [number, number] }>();
  for (const id of matched) {
    const place = sides.placeOf(id);
    if (!place) continue;
    const group = groups.get(place.group) ?? { flow: id, order: place.order, ways: [0, 0] };
    groups.set(place.group, group);
    const speaksFor = (flows.direction(id) === 1) === (place.order === group.order);
    group.ways[speaksFor ? 0 : 1]++;
  }
  return { sides, orders: [...groups.values()] };
}

/**
 * Returns whether the directions of flows with matched packets are consistent with their hosts: in every group, one order goes one way and the other the other.
 */
export function partsLikeHosts(matcher: ExactMatcher): boolean {
  const negative = matcher.total(1).negative + matcher.total(2).negative;
  return negative === 0 && groupsOf(matcher).orders.every(({ ways }) => ways[0] === 0 || ways[1] === 0);
}

function hostsOf(matcher: ExactMatcher, id: number): [Host, Host] {
  const { words, at } = matcher.keyWords(id);
  return hostNames(words, at);
}

/** Returns the side of the hosts of some flows, or of their subnets: 1 BEFORE's, -1 AFTER's, 0 unknown. */
function sidesOfHosts(
  matcher: ExactMatcher,
  asked: readonly number[],
  partOf: (host: Host) => Host = (host) => host,
): (host: Host) => number {
  const { flows } = matcher;
  const near = new Map<Host, { lean: number; all: number }>();
  for (const id of asked)
    for (const host of hostsOf(matcher, id)) near.set(partOf(host), { lean: 0, all: 0 });
  let looked = 0;
  for (let id = 0; id < flows.count && looked < MAX_FLOWS; id++) {
    if (flows.matched(id) === 0) continue;
    looked++;
    const sign = flows.direction(id) === 1 ? 1 : -1;
    const after = matcher.nat ? matcher.mapped(id) : null;
    // With address translation, a host is on its side under either address.
    for (const name of after === null || after === id ? [id] : [id, after]) {
      const [from, to] = hostsOf(matcher, name);
      for (const [host, lean] of [
        [from, sign],
        [to, -sign],
      ] as const) {
        const known = near.get(partOf(host));
        if (!known) continue;
        known.lean += lean;
        known.all++;
      }
    }
  }
  return (host) => {
    const { lean, all } = near.get(partOf(host)) ?? { lean: 0, all: 0 };
    return Math.abs(lean) >= Math.max(1, LEAN * all) ? Math.sign(lean) : 0;
  };
}
