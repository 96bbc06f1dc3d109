/** Shows whether and where something is wrong: incidents as sentences, then one row per segment. */
import { useMemo } from "preact/hooks";
import { HEALTH_WORDS, HEALTHS, type Health, healthOf } from "../../../src/results/health.ts";
import {
  isDownUsual,
  isLookedFor,
  OVERVIEW_STEPS,
  orderSegments,
  SEGMENT_ORDERS,
  type SegmentOrder,
} from "../../../src/results/segment-list.ts";
import { Actions, csvOf } from "../parts/actions.tsx";
import { queryCommand, spanParts } from "../parts/command.ts";
import { Incidents } from "../parts/incidents.tsx";
import { OverviewRow } from "../parts/overview-row.tsx";
import { Paths } from "../parts/paths.tsx";
import { SortHead } from "../parts/sort-head.tsx";
import { Answered, Empty } from "../parts/states.tsx";
import { VirtualRows } from "../parts/virtual-rows.tsx";
import { param, setParams } from "../state/location.ts";
import { liveRound, type SegmentList, useSegments } from "../state/overview.ts";
import type { Segment } from "../state/segments.ts";
import { newestMs, timeRange } from "../state/time-range.ts";

const COLUMNS: readonly (readonly [string, string, string])[] = [
  ["name", "Segment", ""],
  ["", "Delay over time", "wide-only"],
  ["delay", "Delay now", "number"],
  ["normal", "Of normal", "number wide-only"],
  ["loss", "Loss", "number wide-only"],
  ["coverage", "Answered", "number wide-only"],
  ["", "Clocks", "wide-only"],
  ["state", "State", ""],
];

export function OverviewScreen() {
  const asked = useSegments(OVERVIEW_STEPS, true);
  return (
    <>
      <h1>Overview</h1>
      <Incidents />
      <Paths segments={asked.data?.segments ?? NO_SEGMENTS} />
      <Answered asked={asked} what="the segments">
        {(list) => (list.segments.length === 0 ? <Nothing /> : <Table list={list} />)}
      </Answered>
    </>
  );
}

const NO_SEGMENTS: readonly Segment[] = [];

function Nothing() {
  return (
    <Empty title="No segment has results yet">
      <p>
        Point two taps at this collector (<code>hoptime observe eth0 --point A --to {location.origin}</code>)
        and name the segment: <code>hoptime collect --segment A:B</code>. <code>hoptime demo --live</code>{" "}
        shows what to expect.
      </p>
    </Empty>
  );
}

function Table({ list }: { list: SegmentList }) {
  const asked = param("sort") as SegmentOrder;
  const sort = SEGMENT_ORDERS.includes(asked) ? asked : "state";
  const down = (param("order") ?? (isDownUsual(sort) ? "down" : "up")) === "down";
  const search = param("q") ?? "";
  const state = param("state");
  const only = HEALTHS.find((h) => h === state) ?? null;
  const range = timeRange.value;
  const nowMs = range.live ? newestMs.value : range.toMs;
  // Rows keep their positions while values arrive; they are sorted again when all are requested again.
  const order = useMemo(
    () => orderSegments(list.segments, { sort, down, nowMs: (range.live && newestMs.peek()) || list.toMs }),
    [list, sort, down],
  );
  void liveRound.value;
  const counts = new Map<Health, number>();
  for (const s of list.segments) counts.set(healthOf(s, nowMs), (counts.get(healthOf(s, nowMs)) ?? 0) + 1);
  const rows = order.filter((s) => isLookedFor(s, { search, state: only, nowMs }));
  const command = queryCommand(
    ...([["--list", "segments"], ...spanParts(range)] as [string, string][]),
    ...([
      ["--search", search],
      ["--state", only],
    ] as [string, string | null][]),
    ["--sort", sort === "state" ? null : sort],
    ["--order", down === isDownUsual(sort) ? null : down ? "down" : "up"],
  );
  return (
    <section class="card table-card" aria-label="Segments">
      <div class="card-head">
        <div class="filters" role="group" aria-label="Show only">
          <FilterButton only={only} value={null} text={`All ${list.segments.length}`} />
          {HEALTHS.filter((h) => counts.has(h)).map((h) => (
            <FilterButton key={h} only={only} value={h} text={`${HEALTH_WORDS[h]} ${counts.get(h)}`} />
          ))}
        </div>
        <Actions name="segments" command={command} csv={() => csvOf(csvRows(rows, nowMs))} />
      </div>
      <table class="rows" aria-rowcount={rows.length + 1}>
        <thead>
          <tr>
            {COLUMNS.map(([name, title, kind]) => (
              <SortHead key={title} name={name} title={title} kind={kind} sort={sort} down={down} />
            ))}
          </tr>
        </thead>
        <VirtualRows
          rows={rows}
          columns={COLUMNS.length}
          row={(s) => <OverviewRow key={s.key} segment={s} nowMs={nowMs} />}
        />
      </table>
      {rows.length === 0 && (
        <Empty title="No segment matches">
          {
            <button type="button" class="plain-button" onClick={() => setParams({ q: null, state: null })}>
              Show all
            </button>
          }
        </Empty>
      )}
    </section>
  );
}

function FilterButton({ only, value, text }: { only: Health | null; value: Health | null; text: string }) {
  return (
    <button
      type="button"
      class={`chip ${value ?? ""}`}
      aria-pressed={only === value}
      onClick={() => setParams({ state: value })}
    >
      {text}
    </button>
  );
}

function csvRows(rows: readonly Segment[], nowMs: number): (string | number | null)[][] {
  const head = [
    "from",
    "to",
    "label",
    "estimator",
    "mean_ns",
    "low_ns",
    "high_ns",
    "normal_ns",
    "sent",
    "lost",
    "answered",
    "clock_ns",
    "state",
  ];
  return [
    head,
    ...rows.map((s) => {
      const { meanNs = null, lowNs = null, highNs = null } = s.latest?.latency ?? {};
      return [
        s.from,
        s.to,
        s.label,
        s.estimator,
        meanNs,
        lowNs,
        highNs,
        s.normal?.valueNs ?? null,
        s.sent,
        s.lost,
        s.latest?.answered ?? null,
        s.latest?.clockNs ?? null,
        healthOf(s, nowMs),
      ];
    }),
  ];
}
