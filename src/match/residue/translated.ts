/**
 * Finds the name at the first point of flows of the second point (address translation): by matched packets that flows share; for flows with only merged or
 * rewritten segments, by their sequence numbers.
 */
import type { ExactMatcher } from "../matcher.ts";
import type { LonePacket } from "./collect.ts";

/** Two flows are the same if this many of their segments begin with the same sequence numbers. A single SYN suffices. */
const SAME_SEGMENTS = 2;
const SYN = 2;

/** Returns the flow at BEFORE by the flow at AFTER. */
export function namesBefore(
  matcher: ExactMatcher,
  [before, after]: readonly [readonly LonePacket[], readonly LonePacket[]],
): Map<number, number> {
  const names = new Map<number, number>();
  const mapped = new Set<number>();
  for (let id = 0; id < matcher.flowCount; id++) {
    const other = matcher.mapped(id);
    if (other === null) continue;
    mapped.add(id);
    if (other !== id && !names.has(other)) names.set(other, id);
  }
  const wanted = (p: LonePacket) => p.tcp !== null && (p.payload > 0 || (p.tcp.flags & SYN) !== 0);
  const starts = new Map<number, Set<number>>();
  for (const p of before) {
    if (!wanted(p) || mapped.has(p.flow)) continue;
    const sequence = p.tcp?.sequence ?? 0;
    starts.set(sequence, (starts.get(sequence) ?? new Set()).add(p.flow));
  }
  const votes = new Map<number, Map<number, number>>();
  for (const p of after) {
    const flows = wanted(p) && !names.has(p.flow) ? starts.get(p.tcp?.sequence ?? 0) : undefined;
    if (flows?.size !== 1) continue;
    const own = votes.get(p.flow) ?? new Map<number, number>();
    votes.set(p.flow, own);
    const weight = ((p.tcp?.flags ?? 0) & SYN) !== 0 ? SAME_SEGMENTS : 1;
    for (const flow of flows) own.set(flow, (own.get(flow) ?? 0) + weight);
  }
  for (const [flow, own] of votes) {
    const [[best, count] = [0, 0], second] = [...own].sort((a, b) => b[1] - a[1]);
    if (best !== flow && count >= SAME_SEGMENTS && count > 2 * (second?.[1] ?? 0)) names.set(flow, best);
  }
  return names;
}
