/**
 * A second look at unmatched packets, if both captures have such: finds packets that were merged, fragmented or rewritten on the way, and counts them as what
 * they are. The captures are read again only if the first look leaves something to explain.
 */
import type { Kernels } from "../../base/kernels.ts";
import type { ExactMatcher } from "../matcher.ts";
import { collectLone, type LonePacket, type ResidueSource } from "./collect.ts";
import { Corrections, countOf, type Resolved, type Sides } from "./corrections.ts";
import { FragmentCorrections } from "./fragment-corrections.ts";
import { MergeCorrections } from "./merge-corrections.ts";
import { namesBefore } from "./translated.ts";

export type { Resolved } from "./corrections.ts";

/** Corrects the matcher's counts; returns null if there was nothing to examine. */
export async function resolveResidue(
  kernels: Kernels,
  matcher: ExactMatcher,
  sources: readonly [ResidueSource, ResidueSource],
  windowNs: number,
): Promise<Resolved | null> {
  const { lone, long } = await collectLone(kernels, matcher, sources);
  if (lone[0].length === 0 || lone[1].length === 0) return null;
  const to = new Corrections(matcher, windowNs);
  if (matcher.nat) rename(to, lone);
  const fragments = new FragmentCorrections(to);
  fragments.fragments(lone);
  fragments.reassembled(lone);
  if (matcher.nat) quotes(to, lone);
  const left = lone.map((side) => side.filter((p) => !to.done.has(p))) as typeof lone;
  const merges = new MergeCorrections(to);
  for (const [flow, sides] of byFlow(left)) merges.flow(flow, sides);
  merges.intact(long);
  matcher.packets?.finishReplacing();
  return to.resolved;
}

function byFlow(lone: Sides): Map<number, Sides> {
  const flows = new Map<number, Sides>();
  for (const p of [...lone[0], ...lone[1]]) {
    let sides = flows.get(p.flow);
    if (!sides) flows.set(p.flow, (sides = [[], []]));
    sides[p.side].push(p);
  }
  return flows;
}

/** Moves packets of translated flows to the flow's name at the first point. */
function rename(to: Corrections, lone: Sides): void {
  const { flows, packets } = to.matcher;
  const names = namesBefore(to.matcher, lone);
  for (const p of lone[1]) {
    const flow = names.get(p.flow);
    if (flow === undefined) continue;
    const counts = { [countOf(p.fate)]: 1, received: 1, undecided: p.doubted ? 1 : 0 };
    const less = Object.fromEntries(Object.entries(counts).map(([name, n]) => [name, -n]));
    flows.correct(p.flow, less);
    flows.correct(flow, counts);
    packets?.renameLone(p, flow);
    p.flow = flow;
  }
}

/** ICMP errors quote a packet whose addresses are translated, too. */
function quotes(to: Corrections, lone: Sides): void {
  const errors = lone.map((side) => side.filter((p) => p.quotes !== null && !to.done.has(p))) as Sides;
  const arrived = new Map<string, LonePacket[]>();
  for (const p of errors[1]) arrived.set(p.quotes ?? "", [...(arrived.get(p.quotes ?? "") ?? []), p]);
  for (const p of errors[0]) {
    const list = arrived.get(p.quotes ?? "");
    const at = list?.findIndex((a) => Math.abs(a.timeNs - p.timeNs) <= to.windowNs) ?? -1;
    const [other] = at < 0 ? [] : (list?.splice(at, 1) ?? []);
    if (!other) continue;
    const sender = to.sender(p.flow);
    if (other.flow !== p.flow) {
      // Flows are named by their key at the first point.
      to.matcher.flows.correct(other.flow, { received: -1 });
      to.matcher.flows.correct(p.flow, { received: 1 });
    }
    to.pair(p.flow, sender, sender === 0 ? { sent: p, arrived: other } : { sent: other, arrived: p });
  }
}
