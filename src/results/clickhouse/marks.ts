/**
 * Marks which minutes and hours must be rolled up again. A mark is a row, written after the rows it stands for; its number begins with the writer's
 * number. A worker rolls up the spans it has marked itself, and spans whose marks nobody has cleared for long. It clears exactly the marks that it
 * saw before reading. If another mark arrived in between, another worker may have read more than this one and written first, so the span is marked
 * again.
 */
import { randomBytes } from "node:crypto";
import type { Value } from "../dialect.ts";
import { type OpenSpan, openName } from "../results-store.ts";
import type { Step } from "../rows.ts";
import type { ClickhouseHttp } from "./http.ts";
import { RowBinary } from "./row-binary.ts";

const COLUMNS = ["from_point", "to_point", "label", "estimator", "step_s", "start_ns", "mark", "gone"];
const NAMES = "from_point, to_point, label, estimator";
/** How long one of our marks is assumed to be still there. */
const BELIEVED_MS = 60_000;
/** Number of marks per writer. */
const OF_WRITER = 2n ** 32n;
const MAX_BELIEVED = 200_000;
/** Marks not cleared for this long may be taken by any worker: theirs has died. A minute is rolled up about 100 s after its first mark. */
const LEFT_S = 180;

interface Taken {
  /** Marks to clear. */
  marks: bigint[];
  /** Number of marks the span ever had, as far as they are stored. */
  seen: number;
}

export class Marks {
  readonly #http: ClickhouseHttp;
  /** Spans with a mark of ours, and until when it is assumed to be there: a minute is marked once, not with each of its epochs. */
  #believed = new Map<string, number>();
  readonly #taken = new Map<string, Taken>();
  readonly #writer = BigInt(randomBytes(4).readUInt32LE());
  readonly #leftS: number;
  #count = 0n;

  constructor(http: ClickhouseHttp, leftS = LEFT_S) {
    this.#http = http;
    this.#leftS = leftS;
  }

  /** Marks spans. Call after their rows are written. */
  async set(spans: readonly OpenSpan[]): Promise<void> {
    const nowMs = performance.now();
    const fresh = spans.filter((span) => (this.#believed.get(openName(span)) ?? 0) < nowMs);
    if (fresh.length === 0) return;
    await this.#insert(fresh);
    if (this.#believed.size > MAX_BELIEVED) this.#believed = new Map();
    // Others clear it once it is abandoned, and not before.
    const untilMs = nowMs + Math.min(BELIEVED_MS, 500 * this.#leftS);
    for (const span of fresh) this.#believed.set(openName(span), untilMs);
  }

  /** Returns the spans of a step that ended by `untilNs` and that this worker should roll up, oldest first. */
  async open(step: Step, untilNs: bigint, most: number): Promise<OpenSpan[]> {
    const own = `intDiv(mark, ${OF_WRITER}) = ${this.#writer}`;
    const rows = await this.#http.all(
      `SELECT ${NAMES}, start_ns, groupArray(if(gone = 0 AND (${own} OR written <= now() - ${this.#leftS}), toString(mark), '')) AS marks, count() FROM dirty FINAL WHERE step_s = $1 AND start_ns <= $2 GROUP BY ${NAMES}, start_ns HAVING length(arrayFilter(m -> m != '', marks)) > 0 ORDER BY start_ns, ${NAMES} LIMIT $3`,
      [step, untilNs - BigInt(step) * 1_000_000_000n, most],
    );
    return rows.map((row) => {
      const span = spanOf(step, row);
      const name = openName(span);
      // From here on, a new row marks its span again: the read that follows may miss it.
      this.#believed.delete(name);
      const marks = (row[5] as string[]).filter((m) => m !== "").map(BigInt);
      this.#taken.set(name, { marks, seen: Number(row[6]) });
      return span;
    });
  }

  /** Clears the marks seen by `open`, after their spans were rolled up. */
  async clear(spans: readonly OpenSpan[]): Promise<void> {
    const now = await this.#seen(spans);
    const out = new RowBinary();
    const again: OpenSpan[] = [];
    for (const span of spans) {
      const name = openName(span);
      const { marks, seen } = this.#taken.get(name) ?? { marks: [], seen: 0 };
      this.#taken.delete(name);
      if (now.get(name) !== seen) again.push(span);
      for (const mark of marks) writeMark(out, span, mark, 1);
    }
    if (again.length > 0) await this.#insert(again);
    if (out.bytes.length > 0) await this.#http.insert("dirty", COLUMNS, out.bytes);
  }

  /** Returns how many marks each span has had. */
  async #seen(spans: readonly OpenSpan[]): Promise<Map<string, number>> {
    const [first] = spans;
    if (!first) return new Map();
    const { step, startNs } = first;
    const lastNs = spans.at(-1)?.startNs ?? startNs;
    const rows = await this.#http.all(
      `SELECT ${NAMES}, start_ns, count() FROM dirty FINAL WHERE step_s = $1 AND start_ns >= $2 AND start_ns <= $3 GROUP BY ${NAMES}, start_ns`,
      [step, startNs, lastNs],
    );
    return new Map(rows.map((row) => [openName(spanOf(step, row)), Number(row[5])]));
  }

  async #insert(spans: readonly OpenSpan[]): Promise<void> {
    const mark = this.#writer * OF_WRITER + (this.#count++ % OF_WRITER);
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
