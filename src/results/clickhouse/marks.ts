/**
 * Which minutes and hours are to be made again. A mark is a row of its own with a number of its own, written after the rows that it stands for; whoever makes the span takes away the marks that it saw
 * before it read, and no others: what was written meanwhile has another mark, and the span is made again.
 */
import { randomBytes } from "node:crypto";
import type { Value } from "../dialect.ts";
import { type OpenSpan, openName } from "../results-store.ts";
import type { Step } from "../rows.ts";
import type { ClickhouseHttp } from "./http.ts";
import { RowBinary } from "./row-binary.ts";

const COLUMNS = ["from_point", "to_point", "label", "estimator", "step_s", "start_ns", "mark", "gone"];
const NAMES = "from_point, to_point, label, estimator";
/** How long a mark of ours is taken as still there. */
const BELIEVED_MS = 60_000;
const MAX_BELIEVED = 200_000;
/** Spans that nobody made for so long are made by anyone. */
const LEFT_S = 600;

export class Marks {
  readonly #http: ClickhouseHttp;
  /** Spans that have a mark of ours, and until when that is believed: a minute is marked once, not with each of its epochs. */
  #believed = new Map<string, number>();
  /** Marks of the spans that were handed out to be made. */
  readonly #taken = new Map<string, bigint[]>();

  constructor(http: ClickhouseHttp) {
    this.#http = http;
  }

  /** After their rows are written. */
  async set(spans: readonly OpenSpan[]): Promise<void> {
    const nowMs = performance.now();
    const fresh = spans.filter((span) => (this.#believed.get(openName(span)) ?? 0) < nowMs);
    if (fresh.length === 0) return;
    await this.#insert(fresh, randomMark());
    if (this.#believed.size > MAX_BELIEVED) this.#believed = new Map();
    for (const span of fresh) this.#believed.set(openName(span), nowMs + BELIEVED_MS);
  }

  /** Spans of a step that ended at or before a time, oldest first. `rolls`: whose spans are made here. */
  async open(
    step: Step,
    untilNs: bigint,
    most: number,
    rolls: ((span: OpenSpan) => boolean) | undefined,
  ): Promise<OpenSpan[]> {
    const rows = await this.#http.all(
      `SELECT ${NAMES}, start_ns, groupArray(toString(mark)), min(written) < now() - ${LEFT_S} FROM dirty FINAL WHERE gone = 0 AND step_s = $1 AND start_ns <= $2 GROUP BY ${NAMES}, start_ns ORDER BY start_ns, ${NAMES} LIMIT $3`,
      [step, untilNs - BigInt(step) * 1_000_000_000n, rolls ? 20 * most : most],
    );
    const spans: OpenSpan[] = [];
    for (const row of rows) {
      if (spans.length === most) break;
      const span = spanOf(step, row);
      if (rolls && !rolls(span) && Number(row[6]) === 0) continue;
      // From here on a row that is written marks its span again: it may not be among those that are read next.
      this.#believed.delete(openName(span));
      this.#taken.set(openName(span), (row[5] as string[]).map(BigInt));
      spans.push(span);
    }
    return spans;
  }

  /** They were made: the marks that were seen before go. Where another worker took one of them meanwhile, it may have read more than was read here: made again. */
  async clear(spans: readonly OpenSpan[]): Promise<void> {
    const still = await this.#stillOpen(spans);
    const out = new RowBinary();
    const again: OpenSpan[] = [];
    for (const span of spans) {
      const name = openName(span);
      const marks = this.#taken.get(name) ?? [];
      this.#taken.delete(name);
      const open = still.get(name) ?? new Set();
      if (marks.some((m) => !open.has(`${m}`))) again.push(span);
      for (const mark of marks) writeMark(out, span, mark, 1);
    }
    if (again.length > 0) await this.#insert(again, randomMark());
    if (out.bytes.length > 0) await this.#http.insert("dirty", COLUMNS, out.bytes);
  }

  async #stillOpen(spans: readonly OpenSpan[]): Promise<Map<string, Set<string>>> {
    const [first] = spans;
    if (!first) return new Map();
    const { step, startNs } = first;
    const lastNs = spans.at(-1)?.startNs ?? startNs;
    const rows = await this.#http.all(
      `SELECT ${NAMES}, start_ns, groupArray(toString(mark)) FROM dirty FINAL WHERE gone = 0 AND step_s = $1 AND start_ns >= $2 AND start_ns <= $3 GROUP BY ${NAMES}, start_ns`,
      [step, startNs, lastNs],
    );
    return new Map(rows.map((row) => [openName(spanOf(step, row)), new Set(row[5] as string[])]));
  }

  async #insert(spans: readonly OpenSpan[], mark: bigint): Promise<void> {
    const out = new RowBinary();
    for (const span of spans) writeMark(out, span, mark, 0);
    await this.#http.insert("dirty", COLUMNS, out.bytes);
  }
}

function writeMark(out: RowBinary, span: OpenSpan, mark: bigint, gone: number): void {
  const { from, to, label, estimator, step, startNs } = span;
  out.text(from).text(to).text(label).text(estimator);
  out.int32(step).int64(startNs).uint64(mark).uint8(gone);
}

function spanOf(step: Step, [from, to, label, estimator, start]: Value[]): OpenSpan {
  const names = { from: String(from), to: String(to), label: String(label), estimator: String(estimator) };
  return { ...names, step, startNs: BigInt(start as bigint) };
}

function randomMark(): bigint {
  return randomBytes(8).readBigUInt64LE();
}
