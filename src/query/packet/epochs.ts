/** The records of one point that answer questions about packets, by time. They are opened on first use and read in parts. */
import type { RecordArchive } from "../../archive/archive.ts";
import type { ArchiveEntry } from "../../archive/names.ts";
import { UsageError } from "../../base/errors.ts";
import type { Kernels } from "../../base/kernels.ts";
import { FlowKeySpec } from "../../capture/flow/flow-key.ts";
import { openHandle } from "../../collect/archive-records.ts";
import { refusalReason } from "../../collect/estimate.ts";
import type { RecordHandle } from "../../collect/record-handle.ts";
import { choosePairs } from "../../collect/tracks.ts";
import type { RecordHead } from "../../epoch/record.ts";
import type { Estimator, PacketIdentity, PacketLookup, PacketStore } from "../../estimators/estimator.ts";
import { PacketCosts } from "../../estimators/packet-costs.ts";
import { widenLookup } from "../../estimators/widen.ts";
import type { PacketQuestion } from "./question.ts";

export interface OpenEpoch {
  entry: ArchiveEntry;
  head: RecordHead;
  lookup: PacketLookup;
}

interface Reach {
  beforeNs: number;
  behindNs: number;
}

export interface EpochFacts {
  point: string;
  /** Epochs asked, and the packets observed in them. */
  asked: number;
  packets: number;
  firstNs: string | null;
  lastNs: string | null;
  refused: { file: string; reason: string }[];
  readBytes: number;
  /** Size of the records, as text. */
  costs: string | null;
  /** Number of records whose checksum was not checked. */
  unchecked: number;
}

/** Longest packet delay, and clock offset within it, that is searched for. */
const MAX_REACH_NS = 60e9;
/** Most stores kept open; the packets of a capture come in order of time. */
const MAX_OPEN = 4;
/**
 * Reading parts of a record skips its checksum, and a flipped bit in a store is a wrong delay, not an error. Therefore records are first read whole
 * and checked, up to this total size. Beyond it they are trusted, and a note says so.
 */
const CHECKED_BYTES = 64 << 20;

export class PacketEpochs {
  readonly entries: readonly ArchiveEntry[];
  readonly point: string;
  readonly refused: { file: string; reason: string }[] = [];
  readBytes = 0;
  /** Epochs asked whose records were not checked. */
  readonly unchecked = new Set<number>();
  /** Costs of the epochs asked. */
  readonly costs = new PacketCosts();
  readonly #archive: RecordArchive;
  readonly #kernels: Kernels;
  readonly #store: PacketStore;
  readonly #open = new Map<number, OpenEpoch | null>();
  readonly #asked = new Map<number, number>();
  readonly #checked = new Set<number>();
  readonly #reach = new Map<number, Reach>();
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
    for (const parameter of ["point", "segment", "estimator"] as const) {
      const values = new Set(entries.map((e) => e[parameter]));
      if (values.size < 2) continue;
      throw new UsageError(
        "bad-question",
        `there are records of several: ${[...values].join(", ")}`,
        `choose one, e.g. ‘${parameter} ${[...values][0]}’`,
        { parameter },
      );
    }
    this.entries = this.#consistent(entries);
    const [first] = entries;
    this.point = first?.point ?? "";
    const store = able.find((e) => e.name === first?.estimator)?.packets;
    if (!store) throw new Error(`${first?.estimator} does not answer for single packets`);
    this.#store = store;
  }

  /**
   * Keeps the records of one setting (the one with the most packets) and of one cut: a packet stored twice would have two answers and become a
   * guess.
   */
  #consistent(entries: readonly ArchiveEntry[]): ArchiveEntry[] {
    const entryOf = new Map<RecordHandle, ArchiveEntry>();
    for (const entry of entries) {
      const handle = openHandle(this.#archive, entry, (_, { message: reason }) =>
        this.refused.push({ file: entry.file, reason }),
      );
      if (handle) entryOf.set(handle, entry);
    }
    const packets = new Map<string, number>();
    const settings = ({ fingerprint, seed }: RecordHandle) => `${fingerprint}/${seed}`;
    for (const handle of entryOf.keys())
      packets.set(settings(handle), (packets.get(settings(handle)) ?? 0) + handle.packets + 1);
    const main = [...packets].sort((a, b) => b[1] - a[1])[0]?.[0];
    const own: RecordHandle[] = [];
    for (const [handle, { file }] of entryOf) {
      if (settings(handle) === main) own.push(handle);
      else
        this.refused.push({
          file,
          reason: "observed with other parameters, key, cover or seed than most of the records",
        });
    }
    const { pairs, overlapping } = choosePairs([], own, "receiver");
    for (const { receivers } of overlapping)
      for (const handle of receivers)
        this.refused.push({
          file: entryOf.get(handle)?.file ?? "",
          reason: "its time is covered by records of another cut",
        });
    return pairs.flatMap(({ receivers }) => receivers.flatMap((handle) => entryOf.get(handle) ?? []));
  }

  /** Marks a record as unusable. */
  refuse(index: number, error: unknown): void {
    this.refused.push({ file: this.entries[index]?.file ?? "", reason: refusalReason(error) });
    this.#open.get(index)?.lookup.free();
    this.#open.set(index, null);
  }

  get asked(): number {
    return this.#asked.size;
  }
  /** Packets observed in the epochs asked. */
  get packets(): number {
    return [...this.#asked.values()].reduce((n, p) => n + p, 0);
  }

  /** Head of the first readable record: it shows how packets were read when the records were made. */
  head(): RecordHead {
    for (let i = 0; i < this.entries.length && !this.#first; i++) this.open(i);
    if (!this.#first) {
      throw new UsageError("no-records", `no record can be read: ${this.refused[0]?.reason ?? ""}`);
    }
    return this.#first;
  }

  /** Returns the epoch's store; null if its record cannot be used (see `refused`). */
  open(index: number): OpenEpoch | null {
    const epoch = this.peek(index);
    if (epoch && !this.#asked.has(index)) {
      this.costs.add(epoch.lookup.costs(), epoch.head.counters.packets);
      this.#asked.set(index, epoch.head.counters.packets);
    }
    return epoch;
  }

  /** Like `open`, but the epoch does not count as asked. */
  peek(index: number): OpenEpoch | null {
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
      // Refused records stay, so that they are not tried and reported again.
      if (epoch === null) continue;
      epoch.lookup.free();
      this.#open.delete(oldest);
    }
    return opened;
  }

  /**
   * Returns a function that lists the epochs a packet is asked in. These are the epochs that its time (relative to `originNs`) falls into, with the
   * slack on both sides. With `byDelays` (times of the first and last packet), epochs also extend as far back as the delays they hold: a packet
   * captured at the sender arrives that much later. Epochs are sorted by start and overlap only if clocks were damaged, so: bisect, then walk.
   */
  around(
    originNs: bigint,
    slackNs: number,
    byDelays: { firstNs: number; lastNs: number } | null = null,
  ): (timeNs: number) => number[] {
    const from = Float64Array.from(this.entries, (e) => Number(e.epoch.startNs - originNs) - slackNs);
    const to = Float64Array.from(this.entries, (e) => Number(e.epoch.endNs - originNs) + slackNs);
    for (let i = 0; byDelays && i < from.length; i++) {
      if (from[i]! - MAX_REACH_NS > byDelays.lastNs || to[i]! + MAX_REACH_NS < byDelays.firstNs) continue;
      const { beforeNs, behindNs } = this.reach(i);
      from[i]! -= Math.max(0, beforeNs - slackNs);
      to[i]! += Math.max(0, behindNs - slackNs);
    }
    const n = from.length;
    // Running bounds: no epoch from i on begins before earliest[i], and none up to i ends after latest[i].
    const earliest = from.slice();
    for (let i = n - 2; i >= 0; i--) earliest[i] = Math.min(earliest[i]!, earliest[i + 1]!);
    const latest = to.slice();
    for (let i = 1; i < n; i++) latest[i] = Math.max(latest[i]!, latest[i - 1]!);
    return (timeNs) => {
      let low = 0;
      let high = n;
      while (low < high) {
        const middle = (low + high) >>> 1;
        if (latest[middle]! <= timeNs) low = middle + 1;
        else high = middle;
      }
      const out: number[] = [];
      for (let i = low; i < n && earliest[i]! <= timeNs; i++)
        if (from[i]! <= timeNs && timeNs < to[i]!) out.push(i);
      return out;
    };
  }

  /** Returns how long before the epoch's start its packets may have been sent, and how long after its end if a clock offset makes delays negative. */
  reach(index: number): Reach {
    const known = this.#reach.get(index);
    if (known) return known;
    const reach: Reach = { beforeNs: 0, behindNs: 0 };
    try {
      const kept = this.peek(index)?.lookup.everyPacket();
      for (let i = 0; kept && i < kept.count; i++) {
        if (!(kept.groupPackets[i]! > 0)) continue;
        reach.beforeNs = Math.max(reach.beforeNs, Math.min(MAX_REACH_NS, kept.highNs[i]!));
        reach.behindNs = Math.max(reach.behindNs, Math.min(MAX_REACH_NS, -kept.lowNs[i]!));
      }
    } catch (error) {
      this.refuse(index, error);
    }
    this.#reach.set(index, reach);
    return reach;
  }

  /** Runs `ask` on an open epoch. An error in a damaged store refuses that record; a UsageError is the question's fault and is thrown. */
  ask(index: number, ask: (epoch: OpenEpoch) => void): void {
    const epoch = this.open(index);
    if (!epoch) return;
    try {
      ask(epoch);
    } catch (error) {
      if (error instanceof UsageError) throw error;
      this.refuse(index, error);
    }
  }

  each(ask: (epoch: OpenEpoch) => void): void {
    for (let i = 0; i < this.entries.length; i++) this.ask(i, ask);
  }

  /** What packets are stored by: the same in all records, except those that store nothing. */
  identity(): PacketIdentity {
    this.head();
    for (let i = 0; i < this.entries.length; i++) {
      const lookup = this.peek(i)?.lookup;
      if (lookup?.has("digest")) return "digest";
      if (lookup?.has("flow-ipid")) return "flow-ipid";
    }
    return "digest";
  }

  /** Summary of the records asked. */
  facts(): EpochFacts {
    return {
      point: this.point,
      asked: this.asked,
      packets: this.packets,
      firstNs: this.entries[0]?.epoch.startNs.toString() ?? null,
      lastNs: this.entries.at(-1)?.epoch.endNs.toString() ?? null,
      refused: this.refused,
      readBytes: this.readBytes,
      costs: this.costs.text(),
      unchecked: this.unchecked.size,
    };
  }

  free(): void {
    for (const epoch of this.#open.values()) epoch?.lookup.free();
    this.#open.clear();
  }

  #entry(index: number): ArchiveEntry {
    const entry = this.entries[index];
    if (!entry) throw new RangeError(`there is no epoch ${index}`);
    return entry;
  }

  #check(index: number): void {
    if (this.#checked.has(index)) return;
    const entry = this.#entry(index);
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
    const entry = this.#entry(index);
    try {
      const { head, layout } = this.#archive.readHead(entry);
      if (head.void !== null) throw new UsageError("no-records", `the epoch is void: ${head.void}`);
      this.#check(index);
      FlowKeySpec.parse(head.key);
      this.#first ??= head;
      const read = (offset: number, length: number) => {
        this.readBytes += length;
        return this.#archive.readPayloadRange(entry, offset, length);
      };
      const lookup = this.#store.open(this.#kernels, read, layout.unpackedBytes);
      return { entry, head, lookup: widenLookup(lookup, head.delayError) };
    } catch (error) {
      this.refused.push({ file: entry.file, reason: refusalReason(error) });
      return null;
    }
  }
}
