/** Numbers that say on hovering what they rest on. */
import type { Latency, SeriesPoint } from "../api/types.ts";
import { intervalText, intervalTitle, reasonText, shareText, timeText, timeTitle } from "./text.ts";

export function Delay({
  latency,
  reason,
  estimator,
}: {
  latency: Latency | null;
  reason: string | null;
  estimator?: string;
}) {
  if (!latency)
    return (
      <span class="muted" title={reason ? reasonText(reason) : "no answer"}>
        no answer
      </span>
    );
  const by = estimator ? `${estimator}: ` : "";
  return <span title={`${by}${intervalTitle(latency)}`}>{intervalText(latency)}</span>;
}

export function Loss({ point }: { point: Pick<SeriesPoint, "lost" | "sent" | "lossRate"> }) {
  if (point.lossRate === null)
    return (
      <span class="muted" title="sent or received packets are not known">
        –
      </span>
    );
  const title = `${point.lost ?? 0} of ${point.sent ?? 0} packets lost`;
  return (
    <span title={title} class={point.lossRate > 0 ? "has-loss" : ""}>
      {shareText(point.lossRate)}
    </span>
  );
}

export function Time({ ms, precise = false }: { ms: number; precise?: boolean }) {
  return (
    <time dateTime={new Date(ms).toISOString()} title={timeTitle(ms)}>
      {timeText(ms, precise)}
    </time>
  );
}
