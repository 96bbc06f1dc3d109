import { formatBytes } from "../../../src/base/quantity.ts";
import { tapTrouble } from "../../../src/present/tap-trouble.ts";
import type { PointCoverage } from "../api/network.ts";
import type { TapState } from "../api/types.ts";
import { agoText, countText, delayText, shareText, shortCount, timeTitle } from "./text.ts";

interface Props {
  name: string;
  tap: TapState | null;
  coverage: readonly PointCoverage[];
  atMs: number;
  /** The newest version of all taps. */
  newest: string | null;
}

export function TapRow(props: Props) {
  const { name, tap, coverage } = props;
  const rate = tap?.packetsPerSecond ?? null;
  const missing = coverage.reduce((sum, c) => sum + c.missing, 0);
  const trouble = tapTrouble(tap, { ...props, missing });
  const late = coverage.reduce((sum, c) => sum + c.late, 0);
  return (
    <tr class="row">
      <th scope="row" title={name}>
        {name}
      </th>
      <td>
        {tap ? (
          <span title={timeTitle(tap.heardMs)}>{agoText(tap.heardMs, props.atMs)}</span>
        ) : (
          <span class="muted">–</span>
        )}
      </td>
      <td class="number wide-only">{rate === null ? "–" : shortCount(rate)}</td>
      <td class="number wide-only">{countText(tap?.dropped ?? null)}</td>
      <td class="number wide-only">
        {tap?.spool ? (
          <span title={formatBytes(tap.spool.waitingBytes)}>{countText(tap.spool.waiting)}</span>
        ) : (
          "–"
        )}
      </td>
      <td class="number wide-only">
        {coverage.length === 0 ? "–" : <span title={`${late} came late`}>{countText(missing)}</span>}
      </td>
      <td class="wide-only">
        <Clock clock={tap?.clock ?? null} />
      </td>
      <td class="number wide-only">
        {tap?.cpuShare === null || tap?.cpuShare === undefined ? "–" : shareText(tap.cpuShare)}
      </td>
      <td class="wide-only">{tap?.program ?? "–"}</td>
      <td class="state-cell">
        <span class={`badge ${trouble?.state ?? "fine"}`}>{trouble?.text ?? "well"}</span>
      </td>
    </tr>
  );
}

/** State of the tap's clock according to its kernel, at the end of its newest epoch. */
function Clock({ clock }: { clock: TapState["clock"] }) {
  if (!clock) return <span title="unknown: only live taps report it">–</span>;
  const { synchronised, discipline, estimatedErrorNs, maximumErrorNs } = clock;
  const title = `estimated error ${delayText(estimatedErrorNs)}, at most ${delayText(maximumErrorNs)}`;
  return (
    <span title={title}>
      {synchronised ? `${discipline ?? "synchronised"} ±${delayText(estimatedErrorNs)}` : "not synchronised"}
    </span>
  );
}
