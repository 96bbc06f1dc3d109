/** Formats races and recommendations as text, with the commands to run. */
import { countOf, formatBytes, formatCount, formatShare } from "../base/quantity.ts";
import { formatDuration } from "../base/time.ts";
import { SENDER_WINDOW_NS } from "../delays/sender-delays.ts";
import type { Budget } from "../evaluate/race/budget.ts";
import { DELAY_PACKETS, RACE_CLASSES, type Race, type RaceRow } from "../evaluate/race/race.ts";
import { type Advice, EXACT, FEW, type Nearest, type Recommendation } from "../evaluate/race/recommend.ts";
import type { TwoWay } from "../observe/directions.ts";
import { formatTable } from "../present/text/table.ts";
import { colours } from "./terminal.ts";

const share = (value: number | null) => (value === null ? "–" : formatShare(value));

export function budgetText(budget: Budget | null): string {
  if (budget === null) return colours.bold("Each estimator at its usual size");
  if (budget.kind === "memory") return colours.bold(`Equal memory: ${formatBytes(budget.bytes)} per tap`);
  const what = budget.kind === "wire" ? "on the wire" : "stored";
  const list = budget.list ? ", the list of flows included" : "";
  return colours.bold(`Equal bits ${what}: ${budget.bitsPerPacket} per packet${list}`);
}

export function raceText(race: Race): string {
  const { packets, flows, meanNs, rows, list } = race;
  const head = `${colours.bold(race.segment)}: ${countOf(packets, "packet")}, ${countOf(flows, "flow")}, mean delay ${formatDuration(meanNs)}`;
  const listed = rows.some((r) => r.usesList)
    ? `list of flows: ${formatBytes(list.memoryBytes)} of memory, ${((8 * list.bytes) / Math.max(1, packets)).toFixed(2)} bit/packet\n`
    : "";
  const notes = race.notes.map((note) => `note: ${note}\n`).join("");
  return `${head}\n${sizeTable(rows)}\n${delayTable(rows)}${legend(rows)}\n${listed}${notes}`;
}

function sizeTable(rows: readonly RaceRow[]): string {
  return formatTable<RaceRow>(
    [
      { title: "estimator", align: "left", value: (r) => `${r.estimator}${marks(r)}` },
      { title: "memory", value: (r) => formatBytes(r.memoryBytes) },
      { title: "stored", value: (r) => r.storedBits.toFixed(2) },
      { title: "wire", value: (r) => r.wireBits.toFixed(2) },
      { title: "ns/packet", value: (r) => r.cpuNsPerPacket.toFixed(0) },
      { title: "segment", value: (r) => share(r.segmentError) },
      { title: "answered", value: (r) => formatShare(r.answered) },
      ...RACE_CLASSES.map(({ from, to }, c) => ({
        title: to === null ? `≥ ${formatCount(from)}` : `${from}–${to}`,
        value: (r: RaceRow) => {
          const found = r.classes[c];
          if (!found || found.median === null) return "–";
          return `${formatShare(found.median)} (${share(found.withinInterval)})`;
        },
      })),
    ],
    rows,
    { colours },
  );
}

/** Errors by delay of the flow, if there are enough flows. */
function delayTable(rows: readonly RaceRow[]): string {
  const [first] = rows;
  if (!first || first.delayClasses.length === 0) return "";
  const table = formatTable<RaceRow>(
    [
      { title: "by delay", align: "left", value: (r) => r.estimator },
      ...first.delayClasses.map(({ fromNs, toNs }, c) => ({
        title: `${formatDuration(fromNs)}–${formatDuration(toNs)}`,
        value: (r: RaceRow) => share(r.delayClasses[c]?.median ?? null),
      })),
    ],
    rows.filter((r) => r.delayClasses.some((c) => c.median !== null)),
    { colours },
  );
  return `${table}\n`;
}

function marks(row: RaceRow): string {
  const found = [
    row.fits ? "" : "*",
    row.needsDelays ? "+" : "",
    row.usesList ? "§" : "",
    row.byPackets ? "p" : "",
    row.injected ? "r" : "",
  ].join("");
  return found === "" ? "" : ` ${found}`;
}

function legend(rows: readonly RaceRow[]): string {
  const shown = rows.map(marks).join("");
  const lines = [
    ["*", "above the budget: nothing smaller works, or it has no sizes"],
    ["+", "with each packet's delay, which two points alone do not have"],
    ["§", "given the list of flows, which is not in its bits"],
    ["p", "flows asked for packet by packet"],
    ["r", "packets are sent for it; they are in its bits on the wire"],
  ].filter(([mark]) => shown.includes(mark ?? ""));
  const columns =
    "stored, wire: bits per packet, both ends; flows by their packets: median error (share of 95 % intervals that contain the truth)";
  const delays = `by delay: median error of flows of ${DELAY_PACKETS} packets and more, in quarters of their true means`;
  const hasDelays = (rows[0]?.delayClasses.length ?? 0) > 0;
  return [columns, ...(hasDelays ? [delays] : []), ...lines.map(([mark, text]) => `${mark} ${text}`)].join(
    "\n",
  );
}

export interface Files {
  readonly before: string;
  readonly after: string;
  /** Length in ns of an epoch aligned to the clock that contains all of the traffic; null: the capture's times are unknown. */
  readonly epochNs: number | null;
  /** Packets of both directions in the first capture that `observe` cannot separate by itself. */
  readonly mixed: TwoWay | null;
}

/** Settings for `observe`: an epoch with all of the traffic, and the maximum delay of a packet. */
interface Spans {
  readonly epochNs: number;
  readonly longestNs: number | null;
}

export function adviceText(
  advice: Advice,
  races: readonly Race[],
  budget: Budget | null,
  files: Files,
): string {
  const spans: Spans = {
    epochNs: files.epochNs ?? Math.max(0, ...races.map((r) => r.epochNs)),
    longestNs: races.reduce<number | null>(
      (most, { longestNs }) => (longestNs === null ? most : Math.max(most ?? 0, longestNs)),
      null,
    ),
  };
  const { twoPoints, withDelays, nearest } = advice;
  const parts = [
    twoPoints
      ? recommendationText("take", twoPoints, budget, files, spans)
      : noneText(nearest, budget, races.length),
    ...(withDelays
      ? [
          recommendationText(
            "where the receiver knows each packet's delay, take",
            withDelays,
            budget,
            files,
            spans,
          ),
        ]
      : []),
  ];
  return `\n${parts.join("\n")}\n`;
}

/** Explains why no estimator is recommended, and names the closest one. */
function noneText(nearest: Nearest | null, budget: Budget | null, races: number): string {
  const none = colours.bold("none to take");
  if (nearest === null)
    return `${none}: all of these need each packet's delay, which two points alone do not have`;
  const { estimator, fits, segment, row, worst } = nearest;
  const where = races > 1 ? ` with ${segment}` : "";
  const bits = budget?.kind === "stored" ? row.storedBits : row.wireBits;
  if (!fits)
    return `${none}: nothing that works from the packets at two points is within the budget; the smallest is ${estimator} with ${budget?.kind === "memory" ? formatBytes(row.memoryBytes) : `${bits.toFixed(2)} bits per packet`}`;
  const sizes =
    worst &&
    (worst.to === null
      ? `${formatCount(worst.from)} packets and more`
      : `${worst.from} to ${worst.to} packets`);
  const missed = worst
    ? `; of those of ${sizes}, ${formatCount(worst.answered)} of ${formatCount(worst.flows)}`
    : "";
  return `${none}: nothing answers for nine of ten flows of every size, with nine of ten packets,${budget === null ? "" : " within the budget"} from the packets at two points. ${estimator} comes nearest:${where} it answers for ${formatShare(row.answered)} of the flows, which have ${formatShare(row.answeredPackets)} of the packets${missed}. Allow more, or observe in shorter epochs`;
}

function recommendationText(
  verb: string,
  found: Recommendation,
  budget: Budget | null,
  files: Files,
  spans: Spans,
): string {
  const { row, estimator } = found;
  return [
    `${colours.bold(verb)} ${estimator}: ${reason(found, budget)}`,
    ...(row.usesList
      ? [
          `  it uses a list of flows: ${row.listBits.toFixed(2)} bits per packet more, unless NetFlow or IPFIX has it`,
        ]
      : []),
    ...(files.mixed === null ? [] : [`  ${mixedText(files.before, files.mixed)}`]),
    ...commands(found, files, spans).map((line) => `  ${line}`),
  ].join("\n");
}

function reason(
  { row, by, error, large, judged, next, cheaper }: Recommendation,
  budget: Budget | null,
): string {
  const within = budget === null ? "" : " within the budget";
  const of = `of ${judged} that ${judged === 1 ? "answers" : "answer"}${by === "flows" ? " for nine of ten flows of every size" : ""}${within}`;
  const hasFlows = row.classes.some((c) => c.flows >= FEW);
  const what = by === "flows" ? "error over all sizes of flows" : "error of the mean of all packets";
  const first = cheaper
    ? `${of} its ${what} is close to the smallest (${errorText(error)}; ${next?.estimator} ${errorText(next?.error ?? 0)}), for fewer bits on the wire (${row.wireBits.toFixed(2)} per packet; ${next?.wireBits.toFixed(2)})`
    : `${of} it has the smallest ${what} (${errorText(error)}${next ? `; next ${next.estimator} ${errorText(next.error)}` : ""}), for ${row.wireBits.toFixed(2)} bits per packet on the wire`;
  if (!large)
    return `${first}; ${hasFlows ? "none of them answers for flows" : "there are too few flows to judge by"}`;
  const flows = large.from === 1 ? "flows" : `flows of ${formatCount(large.from)} packets and more`;
  const again = large.again && `; another time up to ${formatShare(large.again.high)}`;
  return `${first}; ${flows} err by ${formatShare(large.medianError)} (median of ${formatCount(large.flows)}${again ?? ""})`;
}

function errorText(error: number): string {
  return error < 1.001 * EXACT ? `below ${formatShare(EXACT)}` : formatShare(error);
}

/** Returns the filter for the direction with more packets; if none is known, a filter with a placeholder. */
function oneWay({ packets: [one, other], filters }: TwoWay): string {
  return filters ? filters[one >= other ? 0 : 1] : "src net NETWORK";
}

function mixedText(file: string, { filters }: TwoWay): string {
  const what = filters ? "the filter takes one" : "put the networks of one side for NETWORK";
  return `${file} has packets of both directions, and a segment has one: ${what}`;
}

/** Returns the commands; the sizes were chosen for an epoch as long as the traffic. */
function commands(
  { row, estimator, parameters }: Recommendation,
  files: Files,
  { epochNs, longestNs }: Spans,
): string[] {
  const given = parameters === "" ? "" : ` --${estimator} '${parameters}'`;
  const epoch = ` --epoch ${epochText(epochNs)}`;
  const list = row.usesList ? " --with-flows" : "";
  // Without a tap at the sender, the receiver makes the list of flows.
  const listBehind = row.atSender ? "" : list;
  const way = files.mixed === null ? "" : ` --filter '${oneWay(files.mixed)}'`;
  const rest = `--estimators ${estimator}${given}${epoch}${way}`;
  const window =
    longestNs !== null && longestNs > SENDER_WINDOW_NS ? ` --window ${Math.ceil(longestNs / 1e9)}s` : "";
  const [before, after] = [shellWord(files.before), shellWord(files.after)];
  const sender = row.needsDelays ? ` --sender ${before}${window}` : "";
  return [
    ...(row.injected
      ? [
          `hoptime reference --help   # ${row.injected === "probe" ? "probes" : "reference packets"} have to be sent`,
        ]
      : []),
    ...(row.atSender ? [`hoptime observe ${before} --point A ${rest}${list} --to records`] : []),
    `hoptime observe ${after}${sender} --point B ${rest}${listBehind} --to records`,
    row.byPackets
      ? `hoptime query records --capture ${before}`
      : `hoptime query records --between A B${row.answered > 0 ? " --top 10" : ""}`,
  ];
}

/** Quotes a text for the shell if necessary. */
function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** Rounds up to ms: a shorter epoch would cut the traffic in two. */
function epochText(epochNs: number): string {
  const ms = Math.max(1, Math.ceil(epochNs / 1e6));
  return ms % 1000 === 0 ? `${ms / 1000}s` : `${ms}ms`;
}
