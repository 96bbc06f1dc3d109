/** The records of one point that answer for packets, by time: opened when they are first asked, and read in parts. */
import type { RecordArchive } from "../../archive/archive.ts";
import type { ArchiveEntry } from "../../archive/names.ts";
import { FormatError, UsageError } from "../../base/errors.ts";
import type { Kernels } from "../../base/kernels.ts";
import type { RecordHead } from "../../epoch/record.ts";
import type { Estimator, PacketLookup, PacketStore } from "../../estimators/estimator.ts";
import { PacketCosts } from "../../estimators/packet-costs.ts";
import { widenLookup } from "../../estimators/widen.ts";
import type { PacketQuestion } from "./question.ts";

export interface OpenEpoch {
  entry: ArchiveEntry;
  head: RecordHead;
  lookup: PacketLookup;
}

/** Stores kept open: a capture is asked in order of time. */
const MAX_OPEN = 4;
/**
 * Reading parts of a record leaves its checksum unread, and a flipped bit in a store is a wrong delay, not an error. So records are first read whole and
 * checked, for as long as that is not more than this; the rest is trusted, and said.
 */
const CHECKED_BYTES = 64 << 20;

export class PacketEpochs {
  readonly entries: readonly ArchiveEntry[];
  readonly point: string;
  readonly refused: { file: string; reason: string }[] = [];
  readBytes = 0;
  /** Epochs asked whose records were not checked for damage. */
  readonly unchecked = new Set<number>();
  /** Of the epochs asked. */
  readonly costs = new PacketCosts();
  readonly #archive: RecordArchive;
  readonly #kernels: Kernels;
  readonly #store: PacketStore;
  readonly #open = new Map<number, OpenEpoch | null>();
  readonly #asked = new Map<number, number>();
  readonly #checked = new Set<number>();
  readonly #maxChecked: number;
  #checkedBytes = 0;
  #first: RecordHead | null = null;

  constructor(
    archive: RecordArchive,
    kernels: Kernels,
    table: readonly Estimator[],
    question: PacketQuestion,
    maxChecked = CHECKED_BYTES,
  ) {
    this.#archive = archive;
    this.#maxChecked = maxChecked;
    this.#kernels = kernels;
    const able = table.flatMap((e) => (e.packets ? [{ name: e.name, packets: e.packets }] : []));
    const { entries } = archive.list({
      estimators: able.map((e) => e.name),
      ...(question.point === undefined ? {} : { points: [question.point] }),
      ...(question.segment === undefined ? {} : { segments: [question.segment] }),
      fromNs: question.fromNs,
      toNs: question.toNs,
    });
    const none = (message: string, hint: string) => new UsageError("no-records", message, hint);
    if (entries.length === 0) {
      throw none(
        "no record answers for single packets here",
        `observe the receiver with ‘sender’ and ‘estimators ${able.map((e) => e.name).join(",")}’, or ask for another time`,
      );
    }
    const first = entries[0]!;
    this.point = first.point;
    for (const [parameter, values] of [
      ["point", new Set(entries.map((e) => e.point))],
      ["segment", new Set(entries.map((e) => e.segment))],
      ["estimator", new Set(entries.map((e) => e.estimator))],
    ] as const) {
      if (values.size > 1) {
        throw new UsageError(
          "bad-question",
          `there are records of several: ${[...values].join(", ")}`,
          `choose one, e.g. ‘${parameter} ${[...values][0]}’`,
          { parameter },
        );
      }
    }
    this.#store = able.find((e) => e.name === first.estimator)!.packets;
    this.entries = entries;
  }

  get asked(): number {
    return this.#asked.size;
  }
  /** Packets that the epochs asked have seen. */
  get packets(): number {
    return [...this.#asked.values()].reduce((n, p) => n + p, 0);
  }

  /** How the packets were read when the records were made: of the first one that can be read. */
  head(): RecordHead {
    for (let i = 0; i < this.entries.length && !this.#first; i++) this.open(i);
    if (!this.#first) {
      throw new UsageError("no-records", `no record can be read: ${this.refused[0]?.reason ?? ""}`);
    }
    return this.#first;
  }

  /** The epoch's store; null where its record cannot be used (see `refused`). */
  open(index: number): OpenEpoch | null {
    const known = this.#open.get(index);
    if (known !== undefined) {
      this.#open.delete(index);
      this.#open.set(index, known);
      return known;
    }
    const opened = this.#read(index);
    this.#open.set(index, opened);
    for (const [oldest, epoch] of this.#open) {
      if (this.#open.size <= MAX_OPEN) break;
      // Refused ones stay, so that they are not tried and named again.
      if (epoch === null) continue;
      epoch.lookup.free();
      this.#open.delete(oldest);
    }
    return opened;
  }

  /** Indices of the epochs that [fromNs, toNs] reaches into. */
  between(fromNs: bigint, toNs: bigint): number[] {
    const out: number[] = [];
    // Epochs are sorted by start and do not overlap but for damaged clocks: bisect, then walk.
    let low = 0;
    let high = this.entries.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.entries[middle]!.epoch.endNs <= fromNs) low = middle + 1;
      else high = middle;
    }
    for (let i = low; i < this.entries.length && this.entries[i]!.epoch.startNs <= toNs; i++) out.push(i);
    return out;
  }

  free(): void {
    for (const epoch of this.#open.values()) epoch?.lookup.free();
    this.#open.clear();
  }

  #check(index: number): void {
    if (this.#checked.has(index)) return;
    const entry = this.entries[index]!;
    const bytes = this.#archive.sizeOf(entry);
    if (this.#checkedBytes + bytes > this.#maxChecked) {
      this.unchecked.add(index);
      return;
    }
    this.#archive.readRecord(entry);
    this.#checkedBytes += bytes;
    this.#checked.add(index);
  }

  #read(index: number): OpenEpoch | null {
    const entry = this.entries[index]!;
    try {
      const { head, layout } = this.#archive.readHead(entry);
      if (head.void !== null) throw new UsageError("no-records", `the epoch is void: ${head.void}`);
      this.#check(index);
      this.#first ??= head;
      if (head.fingerprint !== this.#first.fingerprint || head.seed !== this.#first.seed) {
        throw new UsageError(
          "mismatch",
          "it was observed with other parameters, key, cover or seed than the first one",
        );
      }
      const read = (offset: number, length: number) => {
        this.readBytes += length;
        return this.#archive.readPayloadRange(entry, offset, length);
      };
      const lookup = this.#store.open(this.#kernels, read, layout.unpackedBytes);
      if (!this.#asked.has(index)) this.costs.add(lookup.costs(), head.counters.packets);
      this.#asked.set(index, head.counters.packets);
      return { entry, head, lookup: widenLookup(lookup, head.delayError) };
    } catch (error) {
      if (!(error instanceof FormatError || error instanceof UsageError)) throw error;
      this.refused.push({ file: entry.file, reason: error.message });
      return null;
    }
  }
}
