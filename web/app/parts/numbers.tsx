/** Numbers whose tooltip shows what they are based on. */
import type { MeanLatency, SeriesPoint } from "../api/types.ts";
import {
  countText,
  delayText,
  intervalText,
  intervalTitle,
  reasonText,
  shareText,
  timeText,
  timeTitle,
} from "./text.ts";

export function Delay({
  latency,
  reason,
  estimator,
}: {
  latency: MeanLatency | null;
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

export function Loss({
  point,
}: {
  point: Pick<SeriesPoint, "lost" | "sent" | "lossRate"> & {
    lostLow?: number | null;
    lostHigh?: number | null;
  };
}) {
  if (point.lossRate === null)
    return (
      <span class="muted" title="sent or received packets are not known">
        –
      </span>
    );
  const title = `${countText(point.lost)} of ${countText(point.sent)} packets lost${boundsText(point)}`;
  return (
    <span title={title} class={point.lossRate > 0 ? "has-loss" : ""}>
      {shareText(point.lossRate)}
    </span>
  );
}

/** Returns the uncertainty of the loss: packets may be in flight at an epoch boundary. */
function boundsText({ lostLow, lostHigh }: { lostLow?: number | null; lostHigh?: number | null }): string {
  if (lostLow === undefined || lostHigh === undefined || lostLow === null || lostHigh === null) return "";
  return lostLow === lostHigh
    ? ""
    : `, between ${countText(Math.round(lostLow))} and ${countText(Math.round(lostHigh))}: the others may be in flight`;
}

/** Shows the error of a delay due to the clocks of both ends. */
export function Clocks({ clockNs }: { clockNs: number | null | undefined }) {
  if (clockNs === null || clockNs === undefined)
    return (
      <span class="muted" title={CLOCKS_UNKNOWN}>
        not known
      </span>
    );
  return (
    <span title="maximum error of the clocks of both ends, as reported by their kernels; part of the interval">
      ±{delayText(clockNs)}
    </span>
  );
}
const CLOCKS_UNKNOWN = "the taps do not report their clocks (live taps do): delays include the clock offset";

export function Time({ ms, precise = false }: { ms: number; precise?: boolean }) {
  return (
    <time dateTime={new Date(ms).toISOString()} title={timeTitle(ms)}>
      {timeText(ms, precise)}
    </time>
  );
}
