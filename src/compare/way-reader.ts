/**
 * The packets of one capture that go one way, as the comparison saw them: filtered, with its directions and clock correction, keyed as in the report. They are
 * fed to estimators' taps.
 */
import type { PacketBatch } from "../capture/batch.ts";
import { type CompiledFilter, compileFilter } from "../capture/filter/filter.ts";
import { FlowKeySpec } from "../capture/flow/flow-key.ts";
import { RunFinder } from "../capture/flow/key-runs.ts";
import { CaptureReader, DEFAULT_SEED, type RowFilter } from "../capture/reader.ts";
import type { CompareOptions, Reading } from "./compare.ts";
import { correctionLine } from "./plan.ts";

export type WayName = "forward" | "reverse";

export class WayReader {
  readonly #reader: CaptureReader;
  readonly #reading: Reading;
  readonly #side: 0 | 1;
  readonly #way: WayName;
  readonly #owned: { free(): void }[];

  readonly #pieces = new PieceFollower();

  private constructor(
    reader: CaptureReader,
    reading: Reading,
    { side, way }: { side: 0 | 1; way: WayName },
    owned: { free(): void }[],
  ) {
    this.#reader = reader;
    this.#reading = reading;
    this.#side = side;
    this.#way = way;
    this.#owned = owned;
  }

  static async open(
    options: CompareOptions,
    reading: Reading,
    side: 0 | 1,
    way: WayName,
  ): Promise<WayReader> {
    const { kernels } = reading;
    const seed = options.seed ?? DEFAULT_SEED;
    const filter = options.filter === undefined ? null : compileFilter(options.filter, kernels);
    const owned: { free(): void }[] = filter ? [filter] : [];
    const rows = reading.twoWay ? new WayFilter(reading, filter, way, seed) : filter;
    if (rows instanceof WayFilter) owned.push(rows);
    const reader = await CaptureReader.open(kernels, side === 0 ? options.before : options.after, {
      cover: reading.plan.cover,
      inner: options.inner ?? false,
      nat: options.nat ?? false,
      seed,
      key: FlowKeySpec.parse(options.key),
      ...(rows ? { filter: rows } : {}),
    });
    return new WayReader(reader, reading, { side, way }, owned);
  }

  get batch(): PacketBatch {
    return this.#reader.batch;
  }

  /** ns since 1970 of the batch's time 0. */
  get originNs(): bigint {
    return this.#reader.originNs ?? this.#reading.originNs;
  }

  /** Reads the next batch, with times as in the comparison and the common offset subtracted; false at the end. */
  async next(): Promise<boolean> {
    if (!(await this.#reader.next())) return false;
    if (this.#side === 1) this.#correct();
    return true;
  }

  free(): void {
    this.#reader.close();
    this.#reader.free();
    for (const part of this.#owned) part.free();
  }

  #correct(): void {
    const { plan, originNs, commonNs } = this.#reading;
    const { offsetNs, slope, pivotNs, reverseNs, pieces } = correctionLine(plan.correction);
    // In the reverse direction AFTER's times are send times: what is subtracted from delays is added to them.
    const offNs = offsetNs + commonNs - (this.#way === "reverse" ? reverseNs : 0);
    if (offNs === 0 && slope === 0 && pieces === null) return;
    const { timeNs, count } = this.batch;
    const zeroNs = Number(this.originNs - originNs);
    for (let i = 0; i < count; i++) {
      const t = timeNs[i]!;
      const setNs = pieces === null ? 0 : this.#pieces.at(t + zeroNs - offsetNs, pieces.list);
      timeNs[i] = Math.round(t - offNs - setNs - slope * (t + zeroNs - pivotNs));
    }
  }
}

/**
 * Follows the pieces between clock steps over the rows of AFTER, one after the other: a forward step shows in AFTER's own times; after a backward step the same
 * times come twice, and the row that goes back is the first of the next piece.
 */
class PieceFollower {
  #piece = 0;
  #lastNs = Number.NEGATIVE_INFINITY;

  /** Returns what to subtract from a row at `timeNs`, after the offset of the first piece was removed. */
  at(timeNs: number, list: readonly { fromNs: number; offsetNs: number }[]): number {
    for (let next = list[this.#piece]; next; next = list[this.#piece]) {
      const beforeNs = this.#piece === 0 ? 0 : (list[this.#piece - 1]?.offsetNs ?? 0);
      const stepNs = next.offsetNs - beforeNs;
      const boundaryNs = next.fromNs + beforeNs;
      const wentBack = this.#lastNs - timeNs > -stepNs / 2 && timeNs < boundaryNs + Math.abs(stepNs);
      const begins =
        stepNs >= 0
          ? timeNs >= boundaryNs + stepNs / 2
          : (wentBack && this.#lastNs > boundaryNs + stepNs / 2) || timeNs > boundaryNs - stepNs;
      if (!begins) break;
      this.#piece++;
      this.#lastNs = Number.NEGATIVE_INFINITY;
    }
    this.#lastNs = timeNs;
    return this.#piece === 0 ? 0 : (list[this.#piece - 1]?.offsetNs ?? 0);
  }
}

/** Selects the rows of flows in one direction, from those that a filter passes. */
class WayFilter implements RowFilter {
  readonly readsIdentification: boolean;
  readonly #reading: Reading;
  readonly #filter: CompiledFilter | null;
  readonly #way: 1 | 2;
  readonly #seed: bigint;
  #finder: RunFinder | null = null;

  constructor(reading: Reading, filter: CompiledFilter | null, way: WayName, seed: bigint) {
    this.#reading = reading;
    this.#filter = filter;
    this.#way = way === "forward" ? 1 : 2;
    this.#seed = seed;
    this.readsIdentification = filter?.readsIdentification ?? false;
  }

  select(batch: PacketBatch): void {
    const { kernels, flowKey, matcher } = this.#reading;
    const plane = batch.column("select");
    if (this.#filter) this.#filter.select(batch);
    else kernels.u8.fill(1, plane, plane + batch.count);
    this.#finder ??= new RunFinder(kernels, flowKey, this.#seed, batch.capacity);
    matcher.selectWay(batch, this.#finder.find(batch, 0, batch.count), this.#way);
  }

  free(): void {
    this.#finder?.free();
  }
}
