/** Returns the name of a segment, the same everywhere: its points, and its label if that adds something. */
import { isWhole } from "../../epoch/direction-label.ts";

export function segmentText({ from, to, label }: { from: string; to: string; label: string }): string {
  return `${from} → ${to}${isWhole(label, from, to) ? "" : ` (${label})`}`;
}
