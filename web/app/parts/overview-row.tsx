import { segmentText } from "../../../src/present/text/segment-name.ts";
import { HEALTH_WORDS, healthOf, overNormal } from "../../../src/results/health.ts";
import { go, hrefTo } from "../state/location.ts";
import { healthText, type Segment } from "../state/segments.ts";
import { Clocks, Delay, Loss } from "./numbers.tsx";
import { Sparkline } from "./sparkline.tsx";
import { delayText, shareText } from "./text.ts";

export function OverviewRow({ segment, nowMs }: { segment: Segment; nowMs: number }) {
  const { latest, normal, estimator } = segment;
  const health = healthOf(segment, nowMs);
  const times = overNormal(segment);
  const href = hrefTo(["segment", segment.from, segment.to, segment.label]);
  const lossRate = segment.sent ? (segment.lost ?? 0) / segment.sent : null;
  const name = segmentText(segment);
  return (
    <tr class={`row ${health}`} onClick={(e) => !(e.target instanceof HTMLAnchorElement) && go(href)}>
      <th scope="row">
        <a class="row-link" href={href} title={name}>
          {name}
        </a>
      </th>
      <td class="wide-only">
        <Sparkline line={segment} label={name} />
      </td>
      <td class="number">
        <Delay
          latency={latest?.latency ?? null}
          reason={latest?.reason ?? "no data in this time"}
          estimator={estimator}
        />
      </td>
      <td class="number wide-only">
        {times === null ? (
          <span class="muted">–</span>
        ) : (
          <span title={`normally ${delayText(normal?.valueNs ?? 0)} (${normal?.of})`}>
            {times.toFixed(times < 10 ? 1 : 0)}×
          </span>
        )}
      </td>
      <td class="number wide-only">
        <Loss point={{ lossRate, lost: segment.lost, sent: segment.sent }} />
      </td>
      <td class="number wide-only">
        <span title={coverageTitle(segment)}>{shareText(latest?.answered ?? null)}</span>
      </td>
      <td class="wide-only">
        <Clocks clockNs={latest?.clockNs} />
      </td>
      <td class="state-cell">
        <span class={`badge ${health}`} title={healthText(segment, nowMs)}>
          <span class="wide-only">{healthText(segment, nowMs)}</span>
          <span class="narrow-only">{HEALTH_WORDS[health]}</span>
        </span>
      </td>
    </tr>
  );
}

function coverageTitle({ epochs, missing, refused, latest }: Segment): string {
  const share = latest?.answered;
  const now =
    share === null || share === undefined
      ? "not known"
      : `${shareText(share)} of the packets of the newest epoch have an answer`;
  return `${now}; in this time ${epochs} epochs, ${missing} without the other end, ${refused} refused`;
}
