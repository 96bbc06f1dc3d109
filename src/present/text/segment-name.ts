/** How a segment is called everywhere: its points, and its label where that says more. */
import { isWhole } from "../../epoch/direction-label.ts";

export function segmentText({ from, to, label }: { from: string; to: string; label: string }): string {
  return `${from} → ${to}${isWhole(label, from, to) ? "" : ` (${label})`}`;
}
