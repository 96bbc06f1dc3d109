/**
 * Groups flows by a coarser key from result rows: hosts, prefixes, ports. Rows keep only the flows with the most packets of each epoch; `kept`
 * states their share of the segment's packets. Intervals combine as they do from records (collect/combine.ts): flows by squares, what repeats over
 * a flow's epochs unchanged. The error of the segment's mean is common to all flows of an epoch and is added once more, whole. A row of a minute or
 * an hour has the segment's error over all its epochs: N epochs with weight W in total and half widths s have e² ≈ N (W/N)² s². A group with share
 * g of the packets, present in n of them, has n (gW/n)² s² = g² e² N/n.
 */
import { UsageError } from "../../base/errors.ts";
import { FlowKeySpec } from "../../capture/flow/flow-key.ts";
import { formatFlowKey, parseFlowKey } from "../../capture/flow/flow-text.ts";
import { encodeFlowKey } from "../../capture/flow/flow-words.ts";
import { Combination, type CombinationState } from "../../collect/combine.ts";
import type { ResultsStore } from "../../results/results-store.ts";
import type { RowSelection } from "../../results/row-selection.ts";
import type { FlowRow, SegmentRow, Step } from "../../results/rows.ts";
import { latencyOf, type MeanLatency } from "../../results/series.ts";
import { includesKey, maskedWords, maskWordsOf } from "./groups.ts";

export interface RowGroup {
  group: string;
  /** Number of its flows that rows have. */
  flows: number;
  packets: number | null;
  bytes: number | null;
  lost: number | null;
  lostLow: number;
  latency: MeanLatency | null;
  reason: string | null;
  answered: number | null;
}

export interface RowGroups {
  group: string;
  /** Share of the segment's packets covered by the flows in the rows; null if packets were not counted. */
  kept: number | null;
  groups: RowGroup[];
}

const MINUTE_NS = 60_000_000_000n;
/** Longer ranges are read from minute rows; and from hour rows. */
const FINE_NS = 10n * MINUTE_NS;
const LONG_NS = 300n * MINUTE_NS;
/** Most rows read at a time, and per question. */
const MAX_ROWS = 100_000;
const MOST_ROWS = 1_000_000;
const ALIASES: Record<string, string> = { host: "hosts", port: "dport" };

export async function groupFlows(
  store: ResultsStore,
  selection: RowSelection,
  group: string,
  most: number,
  limits: { atOnce: number; rows: number } = { atOnce: MAX_ROWS, rows: MOST_ROWS },
): Promise<RowGroups> {
  const naming = new GroupNames(group);
  const length = selection.toNs - selection.fromNs;
  const step: Step = length <= FINE_NS ? 0 : length <= LONG_NS ? 60 : 3600;
  const { rows: spans, cutNs } = await store.coveringRows(selection, step, MAX_ROWS);
  if (cutNs !== null) throw tooMany();
  const tallies = new Map<string, GroupTally>();
  let [kept, all] = [0, 0];
  await forEachSpan(store, selection, spans, limits, (span, flows) => {
    const groups = new Map<string, FlowRow[]>();
    for (const flow of flows) {
      const name = naming.of(flow.flow);
      const list = groups.get(name);
      if (list) list.push(flow);
      else groups.set(name, [flow]);
      kept += flow.state.packets ?? 0;
    }
    // Flow rows count packets sent, so the segment's total does too, if its sender counted.
    all += span.sent ?? span.state.packets ?? 0;
    for (const [name, list] of groups) {
      const tally = tallies.get(name) ?? new GroupTally();
      tallies.set(name, tally);
      tally.add(list, span);
    }
  });
  const groups = [...tallies].map(([name, tally]) => tally.result(name));
  groups.sort((a, b) => (b.packets ?? 0) - (a.packets ?? 0) || (a.group < b.group ? -1 : 1));
  return { group, kept: all > 0 ? Math.min(1, kept / all) : null, groups: groups.slice(0, most) };
}

const tooMany = () => new UsageError("bad-question", "too many flows in this time", "ask for less time");
const spanKey = ({ step, startNs }: { step: Step; startNs: bigint }) => `${step} ${startNs}`;

/** Reads the flows of the spans in batches of at most `atOnce` rows. Throws if there are more than `rows` in total. */
async function forEachSpan(
  store: ResultsStore,
  selection: RowSelection,
  spans: readonly SegmentRow[],
  { atOnce, rows: most }: { atOnce: number; rows: number },
  use: (span: SegmentRow, flows: readonly FlowRow[]) => void,
): Promise<void> {
  let left = most;
  const read = async (own: readonly SegmentRow[]): Promise<void> => {
    const [first, last] = [own[0], own.at(-1)];
    if (!first || !last) return;
    const range = { ...selection, fromNs: first.startNs, toNs: last.endNs };
    const rows = await store.flows.allRows(range, first.step, atOnce + 1);
    if (rows.length > atOnce && own.length > 1) {
      const half = own.length >> 1;
      await read(own.slice(0, half));
      return await read(own.slice(half));
    }
    left -= rows.length;
    if (rows.length > atOnce || left < 0) throw tooMany();
    const flows = new Map<string, FlowRow[]>(own.map((s) => [spanKey(s), []]));
    for (const row of rows) flows.get(spanKey(row))?.push(row);
    for (const span of own) use(span, flows.get(spanKey(span)) ?? []);
  };
  for (const step of new Set(spans.map((s) => s.step))) await read(spans.filter((s) => s.step === step));
}

class GroupTally {
  readonly #combination = new Combination();
  readonly #flows = new Set<string>();
  #bytes: number | null = null;

  /** Adds the flows of one span. */
  add(flows: readonly FlowRow[], span: SegmentRow): void {
    let [weight, epochs, answered] = [0, 1, 0];
    for (const { flow, bytes, state } of flows) {
      this.#flows.add(flow);
      if (bytes !== null) this.#bytes = (this.#bytes ?? 0) + bytes;
      this.#combination.addState(state, flow);
      weight += state.weight;
      if (state.weight > 0) answered++;
      epochs = Math.max(epochs, state.answers);
    }
    const { state } = span;
    if (answered < 2 || !(state.weight > 0)) return;
    const share = (weight / state.weight) * Math.sqrt(Math.max(1, state.answers / epochs));
    this.#combination.addState(onlyError(share * state.errorLow, share * state.errorHigh));
  }

  result(group: string): RowGroup {
    const { packets, lost, lostLow } = this.#combination.result();
    const flows = this.#flows.size;
    const counts = { packets, bytes: this.#bytes, lost, lostLow };
    return { group, flows, ...counts, ...latencyOf(this.#combination, null) };
  }
}

const NOTHING = new Combination().state();
function onlyError(errorLow: number, errorHigh: number): CombinationState {
  return { ...NOTHING, errorLow, errorHigh };
}

/** Maps flows to groups. Rows identify flows by their text, so the text determines how they can be grouped. */
class GroupNames {
  readonly #group: string;
  readonly #spec: FlowKeySpec;
  readonly #masks: Uint32Array;
  readonly #names = new Map<string, string>();
  readonly #fitting = new Set<string>();

  constructor(group: string) {
    this.#group = group;
    this.#spec = FlowKeySpec.parse(ALIASES[group] ?? group);
    this.#masks = maskWordsOf(this.#spec);
  }

  of(flow: string): string {
    const known = this.#names.get(flow);
    if (known !== undefined) return known;
    const key = parseFlowKey(flow);
    const own = observedKey(flow, key);
    if (!this.#fitting.has(own)) {
      const spec = FlowKeySpec.parse(own);
      if (!includesKey(spec, this.#spec))
        throw new UsageError(
          "bad-question",
          `the flows were observed by ${own}, which does not contain ${this.#group}`,
          "observe with a finer ‘key’, or group by a coarser one",
          { parameter: "group", value: this.#group },
        );
      this.#fitting.add(own);
    }
    const words = maskedWords(encodeFlowKey(FlowKeySpec.parse("5tuple"), key), this.#masks);
    const name = formatFlowKey(this.#spec.describe(words));
    this.#names.set(flow, name);
    return name;
  }
}

/** Returns the key that a flow's text belongs to. */
function observedKey(
  flow: string,
  { src, dst, proto, sport, dport }: ReturnType<typeof parseFlowKey>,
): string {
  const prefix = (address: string) => /\/(\d+)$/.exec(address)?.[1];
  const side = (name: "src" | "dst", address: string | null) => {
    if (address === null) return [];
    const bits = prefix(address);
    if (bits === undefined) return [name];
    return [address.includes(":") ? `${name}/32/${bits}` : `${name}/${bits}`];
  };
  // Protocols without ports have none in the text, but still are 5-tuples.
  const portless = sport === null && dport === null && proto !== null && proto !== 6 && proto !== 17;
  const parts = [
    ...side("src", src),
    ...side("dst", dst),
    ...(proto === null ? [] : ["proto"]),
    ...(sport !== null || portless ? ["sport"] : []),
    ...(dport !== null || portless ? ["dport"] : []),
  ];
  if (parts.length === 0)
    throw new UsageError("bad-question", `flow '${flow}' cannot be grouped`, undefined, {
      parameter: "group",
    });
  return parts.join(",");
}
