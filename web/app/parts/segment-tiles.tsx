import { healthOf } from "../../../src/results/health.ts";
import type { Normal, SeriesPoint } from "../api/types.ts";
import { healthText } from "../state/segments.ts";
import { msOf, newestMs, timeRange } from "../state/time-range.ts";
import { countText, delayText, intervalText, intervalTitle, reasonText, shareText } from "./text.ts";

/** Shows half the width of the interval in smaller type. */
function WithInterval({ text }: { text: string }) {
  const [value, half] = text.split(" ±");
  return (
    <>
      {value} <small>±{half}</small>
    </>
  );
}

/** Five numbers about the newest epoch and the selected time range. */
export function SegmentTiles({
  points,
  estimator,
  normal,
}: {
  points: readonly SeriesPoint[];
  estimator: string;
  normal: Normal | null;
}) {
  const latest = points.at(-1) ?? null;
  const range = timeRange.value;
  const nowMs = range.live ? newestMs.value : latest ? msOf(latest.endNs) : 0;
  const health = healthOf({ latest, normal }, nowMs);
  const counted = points.filter((p) => p.sent !== null && p.received !== null);
  const sent = counted.reduce((sum, p) => sum + (p.sent ?? 0), 0);
  const lost = Math.max(
    0,
    counted.reduce((sum, p) => sum + (p.sent ?? 0) - (p.received ?? 0), 0),
  );
  const clockNs = latest?.clockNs ?? null;
  const unanswered = points.filter((p) => !p.latency).length;
  return (
    <div class="tiles">
      <div class={`tile ${health === "slow" ? "bad" : ""}`}>
        <span class="tile-name">Delay, newest point ({estimator})</span>
        <span class="tile-value" title={latest?.latency ? intervalTitle(latest.latency) : ""}>
          {latest?.latency ? <WithInterval text={intervalText(latest.latency)} /> : "no answer"}
        </span>
        <span class="tile-detail">{healthText({ latest, normal }, nowMs)}</span>
      </div>
      <div class="tile">
        <span class="tile-name">Normal</span>
        <span class="tile-value">{normal ? delayText(normal.valueNs) : "–"}</span>
        <span class="tile-detail">
          {normal
            ? `of the ${normal.of}, usually within ±${delayText(2 * normal.spreadNs)}`
            : "not enough results yet"}
        </span>
      </div>
      <div class={`tile ${lost > 0 ? "loss" : ""}`}>
        <span class="tile-name">Loss in this time</span>
        <span class="tile-value">{sent > 0 ? shareText(lost / sent) : "–"}</span>
        <span class="tile-detail">
          {sent > 0
            ? `${countText(lost)} of ${countText(sent)} packets`
            : "packets are not counted at both ends"}
        </span>
      </div>
      <div class="tile">
        <span class="tile-name">Points with an answer</span>
        <span class="tile-value">
          {points.length === 0 ? "–" : shareText((points.length - unanswered) / points.length)}
        </span>
        <span class="tile-detail">
          {unanswered === 0
            ? "no gaps"
            : reasonText(points.find((p) => !p.latency)?.reason ?? "gaps are hatched")}
        </span>
      </div>
      <div class="tile">
        <span class="tile-name">Clocks of both ends</span>
        <span class="tile-value">{clockNs === null ? "–" : `±${delayText(clockNs)}`}</span>
        <span class="tile-detail">
          {clockNs === null
            ? "unknown: the taps do not report them"
            : "their maximum error, included in the interval"}
        </span>
      </div>
    </div>
  );
}
