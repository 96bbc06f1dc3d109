/** The values of the charts as a table: built when it is opened, newest first. */
import { useState } from "preact/hooks";
import type { SeriesPoint } from "../api/types.ts";
import { msOf } from "../state/time-range.ts";
import { Clocks, Delay, Loss, Time } from "./numbers.tsx";
import { countText, shareText } from "./text.ts";

const SHOWN = 300;

export function SeriesTable({ points, estimator }: { points: readonly SeriesPoint[]; estimator: string }) {
  const [open, setOpen] = useState(false);
  return (
    <details onToggle={(e) => setOpen((e.currentTarget as HTMLDetailsElement).open)}>
      <summary>Table of these {points.length} points</summary>
      {open && (
        <div class="scroll-x" tabIndex={0} role="region" aria-label="Table of the points">
          <table class="small">
            <thead>
              <tr>
                {[
                  "Begins",
                  "Delay",
                  "Loss",
                  "Sent",
                  "Received",
                  "Answered",
                  "Clocks",
                  "Epochs",
                  "Missing",
                ].map((h) => (
                  <th key={h} scope="col">
                    {h}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {points
                .slice(-SHOWN)
                .reverse()
                .map((p) => (
                  <tr key={p.startNs}>
                    <th scope="row">
                      <Time ms={msOf(p.startNs)} precise />
                    </th>
                    <td>
                      <Delay latency={p.latency} reason={p.reason} estimator={estimator} />
                    </td>
                    <td>
                      <Loss point={p} />
                    </td>
                    <td>{countText(p.sent)}</td>
                    <td>{countText(p.received)}</td>
                    <td>{shareText(p.answered)}</td>
                    <td>
                      <Clocks clockNs={p.clockNs} />
                    </td>
                    <td>{p.epochs}</td>
                    <td>{p.missing + p.refused}</td>
                  </tr>
                ))}
            </tbody>
          </table>
          {points.length > SHOWN && (
            <p class="muted">
              The newest {SHOWN} of {points.length}; CSV has all.
            </p>
          )}
        </div>
      )}
    </details>
  );
}

export function seriesCsv(
  list: readonly { estimator: string; points: readonly SeriesPoint[] }[],
): (string | number | null)[][] {
  const head = [
    "estimator",
    "start_ns",
    "end_ns",
    "mean_ns",
    "low_ns",
    "high_ns",
    "stdev_ns",
    "sent",
    "received",
    "lost",
    "answered",
    "clock_ns",
    "epochs",
    "missing",
    "refused",
    "reason",
  ];
  return [
    head,
    ...list.flatMap(({ estimator, points }) =>
      points.map((p) => [
        ...[
          estimator,
          p.startNs,
          p.endNs,
          p.latency?.meanNs ?? null,
          p.latency?.lowNs ?? null,
          p.latency?.highNs ?? null,
        ],
        ...[
          p.latency?.stdevNs ?? null,
          p.sent,
          p.received,
          p.lost,
          p.answered,
          p.clockNs,
          p.epochs,
          p.missing,
          p.refused,
          p.reason,
        ],
      ]),
    ),
  ];
}
