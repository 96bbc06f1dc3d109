/** The largest flows of a segment in the selected time range, sortable by any column. */
import type { FlowFilter } from "../../../src/capture/filter/flow-filter.ts";
import { segmentText } from "../../../src/present/text/segment-name.ts";
import { get } from "../api/client.ts";
import type { FlowSummary, KnownSegment, SegmentName } from "../api/types.ts";
import { useAnswer } from "../api/use-answer.ts";
import { askTails, type FlowTail } from "../state/distribution.ts";
import { hrefTo, param, setParams } from "../state/location.ts";
import { useCalmRange } from "../state/series.ts";
import { nsText } from "../state/time-range.ts";
import { Actions, csvOf } from "./actions.tsx";
import { queryCommand, spanParts } from "./command.ts";
import { Delay } from "./numbers.tsx";
import { SortHead } from "./sort-head.tsx";
import { Answered, Empty } from "./states.tsx";
import { countText, delayText, shareText } from "./text.ts";

const COLUMNS: readonly (readonly [string, string, string])[] = [
  ["flow", "Flow", ""],
  ["delay", "Mean delay", "number"],
  ["p99", "p99", "number"],
  ["packets", "Packets", "number"],
  ["loss", "Loss", "number wide-only"],
  ["answered", "Answered", "number wide-only"],
];

type Tails = ReadonlyMap<string, FlowTail>;

const VALUES: Readonly<Record<string, (f: FlowSummary, tails: Tails) => number | string>> = {
  p99: (f, tails) => tails.get(f.flow)?.p99Ns ?? -1,
  flow: (f) => f.flow,
  delay: (f) => f.latency?.meanNs ?? -1,
  packets: (f) => f.packets ?? -1,
  loss: (f) => (f.packets ? (f.lost ?? (f.lostLow || -1)) / f.packets : -1),
  answered: (f) => f.answered ?? -1,
};

interface Flows {
  estimator: string;
  flows: FlowSummary[];
}

/** Number of flows whose packets are looked up: the largest ones. */
const TAILS = 500;
const NO_TAILS: Tails = new Map();

function tailTitle(tail: FlowTail | undefined): string {
  if (!tail) return "none of its packets is listed in the records of packets";
  return `of ${countText(tail.packets)} packets in the records of maple; max ${delayText(tail.maxNs)}`;
}

/** Loss of a flow, or its lower bound: packets lost in a sketch's cell may belong to any of its flows. */
export function FlowLoss({ flow }: { flow: Pick<FlowSummary, "packets" | "lost" | "lostLow"> }) {
  const { lost, lostLow, packets } = flow;
  const known = lost ?? (lostLow || null);
  if (known === null || !packets)
    return (
      <span class="muted" title={SHARED}>
        –
      </span>
    );
  const [sign, least, why] = lost === null ? ["≥ ", "at least ", `: ${SHARED}`] : ["", "", ""];
  return (
    <span
      class={known > 0 ? "has-loss" : ""}
      title={`${least}${countText(Math.round(known))} of ${countText(packets)} packets lost${why}`}
    >
      {sign}
      {shareText(known / packets)}
    </span>
  );
}
const SHARED = "in some epochs the missing packets may belong to other flows in the same cells";

export function FlowTable({
  segment,
  title,
  top,
  filter,
}: {
  segment: KnownSegment;
  title: string;
  top: number;
  filter?: FlowFilter;
}) {
  const range = useCalmRange();
  const { from, to, label } = segment;
  const asked = useAnswer(
    `${from} ${to} ${label} ${top} ${range.key}`,
    (signal) =>
      get<Flows>(
        "/v1/flows",
        { from, to, label, top, since: nsText(range.fromMs), until: nsText(range.toMs) },
        signal,
      ),
    range.refresh,
  );
  // This reads records, so it is requested only when wanted, and not again as time moves on.
  const wanted = param("p99") !== null || param("sort") === "p99";
  const tails = useAnswer(segment.packets && wanted ? `p99 ${to} ${label} ${range.key}` : null, (signal) =>
    askTails(segment, range, TAILS, signal),
  );
  // If no estimator answers for flows, this is no error.
  if (asked.error?.code === "no-records")
    return <Empty title={`No flows of ${segmentText(segment)}`}>{<p>{asked.error.message}</p>}</Empty>;
  return (
    <section class="card table-card" aria-label={title}>
      <div class="card-head">
        <h2>{title}</h2>
        {segment.packets && !wanted && (
          <button type="button" class="plain-button" onClick={() => setParams({ p99: "1" })}>
            p99, too (read from the records of packets)
          </button>
        )}
      </div>
      <Answered asked={asked} what="the flows">
        {(data) => (
          <FlowRows {...{ data, segment, top, filter, span: range }} tails={tails.data ?? NO_TAILS} />
        )}
      </Answered>
    </section>
  );
}

function FlowRows({
  data,
  segment,
  top,
  filter,
  span,
  tails,
}: {
  data: Flows;
  tails: Tails;
  segment: SegmentName;
  top: number;
  filter: FlowFilter | undefined;
  span: { fromMs: number; toMs: number };
}) {
  const sort = param("sort") ?? "packets";
  const down = (param("order") ?? (sort === "flow" ? "up" : "down")) === "down";
  // Quantiles are known only if packets are kept.
  const columns = COLUMNS.filter(([name]) => name !== "p99" || tails.size > 0);
  const value = VALUES[sort] ?? VALUES["packets"];
  const flows = data.flows.filter((f) => filter?.fits(f.flow) ?? true);
  flows.sort((a, b) => {
    const [x, y] = [value?.(a, tails) ?? 0, value?.(b, tails) ?? 0];
    return (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1);
  });
  if (data.flows.length === 0)
    return (
      <Empty title="No flows in this time">
        {
          <p>
            Flows need an estimator that answers by flow (lds, colate or rli) and a list of flows (flows).
          </p>
        }
      </Empty>
    );
  if (flows.length === 0) return <Empty title="No flow matches the filter" />;
  const command = queryCommand(
    ["--between", segment.from, segment.to],
    ["--segment", segment.label],
    ["--estimator", data.estimator],
    ["--top", String(top)],
    [filter?.problem ? "--search" : "--filter", filter?.text ?? null],
    ["--sort", sort === "packets" ? null : sort],
    ["--order", down === (sort !== "flow") ? null : down ? "down" : "up"],
    ...spanParts(span),
  );
  return (
    <>
      <div class="scroll-x" tabIndex={0} role="region" aria-label="Flows">
        <table class="rows">
          <thead>
            <tr>
              {columns.map(([name, head, kind]) => (
                <SortHead key={name} name={name} title={head} kind={kind} sort={sort} down={down} />
              ))}
            </tr>
          </thead>
          <tbody>
            {flows.map((f) => (
              <tr key={f.flow} class="row">
                <th scope="row">
                  <a
                    class="row-link"
                    href={hrefTo(["flows", segment.from, segment.to, segment.label], { flow: f.flow })}
                  >
                    {f.flow}
                  </a>
                </th>
                <td class="number">
                  <Delay latency={f.latency} reason={f.reason} estimator={data.estimator} />
                </td>
                {tails.size > 0 && (
                  <td class="number" title={tailTitle(tails.get(f.flow))}>
                    {tails.has(f.flow) ? delayText(tails.get(f.flow)?.p99Ns ?? 0) : "–"}
                  </td>
                )}
                <td class="number">{countText(f.packets)}</td>
                <td class="number wide-only">
                  <FlowLoss flow={f} />
                </td>
                <td class="number wide-only">{shareText(f.answered)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <Actions
        name={`flows ${segmentText(segment)}`}
        command={command}
        csv={() =>
          csvOf([
            [
              ...["flow", "packets", "bytes", "lost", "lost_low", "mean_ns", "low_ns", "high_ns"],
              ...["p99_ns", "answered", "reason"],
            ],
            ...flows.map((f) => [
              f.flow,
              f.packets,
              f.bytes,
              f.lost,
              f.lostLow,
              f.latency?.meanNs ?? null,
              f.latency?.lowNs ?? null,
              f.latency?.highNs ?? null,
              tails.get(f.flow)?.p99Ns ?? null,
              f.answered,
              f.reason,
            ]),
          ])
        }
      />
    </>
  );
}
