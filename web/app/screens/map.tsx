/** The network as points and segments, coloured by the ratio of each delay to its normal, at any time in the selected range. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { MAP_STEPS } from "../../../src/results/segment-list.ts";
import type { NetworkPath } from "../api/network.ts";
import { Actions, csvOf } from "../parts/actions.tsx";
import { queryCommand, spanParts, timeWord } from "../parts/command.ts";
import { IncidentLine, useIncidents } from "../parts/incidents.tsx";
import { type Link, MapLegend, NetworkMap } from "../parts/network-map.tsx";
import { usePaths } from "../parts/paths.tsx";
import { savePng } from "../parts/picture.ts";
import { PlanLayer, useStationPlan } from "../parts/plan-layer.tsx";
import { Answered, Empty } from "../parts/states.tsx";
import { timeText } from "../parts/text.ts";
import { forgetPlaces, layOut } from "../state/layout.ts";
import { param, setParams } from "../state/location.ts";
import { type SegmentList, useSegments } from "../state/overview.ts";
import { msOf, nsText, timeRange } from "../state/time-range.ts";

const LAYERS = [
  ["delay", "Delay"],
  ["plan", "Plan of upgrades"],
] as const;

export function MapScreen() {
  const asked = useSegments(MAP_STEPS);
  const paths = usePaths();
  const plan = useStationPlan();
  const layer = param("layer") === "plan" && plan.data !== null ? "plan" : "delay";
  return (
    <>
      <h1>Map</h1>
      {plan.data && (
        <div class="filters" role="group" aria-label="Layer">
          {LAYERS.map(([name, title]) => (
            <button
              key={name}
              type="button"
              class="chip"
              aria-pressed={layer === name}
              onClick={() => setParams({ layer: name === "delay" ? null : name })}
            >
              {title}
            </button>
          ))}
        </div>
      )}
      {layer === "plan" && <PlanLayer asked={plan} />}
      <Answered asked={asked} what="the segments">
        {(list) =>
          layer === "plan" ? null : list.segments.length === 0 ? (
            <Empty title="No segment has results yet">
              <p>
                The map shows points and the segments between them as soon as both ends of one have sent
                records.
              </p>
            </Empty>
          ) : (
            <MapView list={list} paths={paths} />
          )
        }
      </Answered>
    </>
  );
}

/** Returns segments by their ends (of several labels the first), and path parts without measurement. */
function linksOf(list: SegmentList, paths: readonly NetworkPath[]): Pick<Link, "from" | "to" | "segment">[] {
  const links = new Map<string, Pick<Link, "from" | "to" | "segment">>();
  for (const segment of list.segments) {
    const key = JSON.stringify([segment.from, segment.to]);
    if (!links.has(key)) links.set(key, { from: segment.from, to: segment.to, segment });
  }
  for (const { points } of paths)
    for (const [i, from] of points.entries()) {
      const to = points[i + 1];
      const key = JSON.stringify([from, to]);
      if (to !== undefined && !links.has(key)) links.set(key, { from, to, segment: null });
    }
  return [...links.values()];
}

const FRAME_MS = 250;

function MapView({ list, paths }: { list: SegmentList; paths: readonly NetworkPath[] }) {
  const incidents = useIncidents();
  const steps = list.segments[0]?.meanNs.length ?? 1;
  const at = param("at");
  const first = Math.floor(list.fromMs / list.stepMs) * list.stepMs;
  const chosen =
    at === null
      ? steps - 1
      : Math.max(0, Math.min(steps - 1, Math.floor((Date.parse(at) - first) / list.stepMs)));
  const [playing, setPlaying] = useState(false);
  const show = (step: number) =>
    setParams({ at: step >= steps - 1 ? null : new Date(first + step * list.stepMs).toISOString() }, true);
  useEffect(() => {
    if (!playing) return;
    const timer = setTimeout(() => {
      if (chosen >= steps - 1) setPlaying(false);
      else show(chosen + 1);
    }, FRAME_MS);
    return () => clearTimeout(timer);
  }, [playing, chosen, steps]);
  const card = useRef<HTMLElement>(null);
  const bare = useMemo(() => linksOf(list, paths), [list, paths]);
  const [anew, setAnew] = useState(0);
  const names = [...new Set(bare.flatMap((l) => [l.from, l.to]))].sort();
  const nodes = useMemo(() => layOut(names, bare), [names.join("\n"), bare.length, anew]);
  const query = (param("q") ?? "").toLowerCase();
  const instantMs = first + (chosen + 0.5) * list.stepMs;
  const open = (incidents.data ?? []).filter(
    (i) => msOf(i.startNs) <= instantMs && (i.state === "open" || msOf(i.endNs) >= instantMs),
  );
  const links: Link[] = bare.map((l) => ({
    ...l,
    step: chosen,
    stepMs: list.stepMs,
    incident: open.some((i) => i.segment?.from === l.from && i.segment.to === l.to),
    faded: query !== "" && !`${l.from} → ${l.to}`.toLowerCase().includes(query),
  }));
  return (
    <>
      {open.map((i) => (
        <IncidentLine key={i.id} incident={i} />
      ))}
      <section class="card" ref={card} aria-label="Map of the network">
        <div class="card-head">
          <p class="muted">
            Colour: delay over the segment's own normal <MapLegend />
            <br />
            Width: packets per second. Dashed: no answer. Red around: an incident. Drag points to move them.
          </p>
          <div class="actions">
            <button
              type="button"
              class="plain-button"
              onClick={() => {
                forgetPlaces();
                setAnew((n) => n + 1);
              }}
            >
              Lay out anew
            </button>
            <Actions
              name="map"
              command={queryCommand(["--list", "segments"], ...spanParts(list), [
                "--at",
                timeWord(first + chosen * list.stepMs),
              ])}
              csv={() => csvOf(mapRows(links, first + chosen * list.stepMs))}
              png={() => void savePng(card.current, `Map, ${timeText(instantMs)}`)}
            />
          </div>
        </div>
        <NetworkMap nodes={nodes} links={links} />
        <div class="slider">
          <button
            type="button"
            class="plain-button"
            onClick={() => {
              if (!playing && chosen >= steps - 1) show(0);
              setPlaying(!playing);
            }}
          >
            {playing ? "Stop" : "Play"}
          </button>
          <input
            type="range"
            aria-label="Instant"
            min={0}
            max={steps - 1}
            value={chosen}
            onInput={(e) => show(Number(e.currentTarget.value))}
            aria-valuetext={timeText(first + chosen * list.stepMs)}
          />
          <span>
            {chosen >= steps - 1 && timeRange.value.live ? "newest" : timeText(first + chosen * list.stepMs)}
          </span>
        </div>
      </section>
    </>
  );
}

/** The map as a table. */
function mapRows(links: readonly Link[], startMs: number): (string | number | null)[][] {
  return [
    ["from", "to", "start_ns", "mean_ns", "normal_ns", "loss_rate", "incident"],
    ...links.map(({ from, to, segment, step, incident }) => [
      ...[from, to, nsText(startMs)],
      ...[segment?.meanNs[step] ?? null, segment?.normal?.valueNs ?? null],
      ...[segment?.lossRate[step] ?? null, incident ? "yes" : "no"],
    ]),
  ];
}
