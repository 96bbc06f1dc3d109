/** Address translation: matches each flow of one point with its flow at the other. */
import type { FlowKey, FlowKeySpec } from "../capture/flow/flow-key.ts";
import type { ExactMatcher } from "../match/matcher.ts";
import type { Translation } from "./report.ts";

/** Returns the flow's key at the second point; null if it is the same, or unknown. */
export function translatedKey(matcher: ExactMatcher, id: number, key: FlowKeySpec): FlowKey | null {
  const other = matcher.mapped(id);
  if (other === null || other === id) return null;
  const { words, at } = matcher.keyWords(other);
  return key.describe(words, at);
}

/** Returns the translated addresses, most packets first. */
export function translations(matcher: ExactMatcher, key: FlowKeySpec): Translation[] {
  const found = new Map<string, Translation>();
  for (let id = 0; id < matcher.flowCount; id++) {
    const after = translatedKey(matcher, id, key);
    if (!after) continue;
    const { words, at } = matcher.keyWords(id);
    const before = key.describe(words, at);
    const packets = matcher.flows.matched(id);
    for (const end of ["src", "dst"] as const) {
      const [from, to] = [before[end], after[end]];
      if (from === null || to === null || from === to) continue;
      const name = `${end} ${from} ${to}`;
      const known = found.get(name) ?? { end, before: from, after: to, flows: 0, packets: 0 };
      known.flows++;
      known.packets += packets;
      found.set(name, known);
    }
  }
  return [...found.values()].sort((a, b) => b.packets - a.packets);
}
