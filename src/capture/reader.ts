/**
 * Reads a capture as a stream of batches: bytes -> chunk in kernel memory -> walk and decode kernel -> PacketBatch, filtered and keyed. The file is never in
 * memory as a whole. Damage ends the stream with `partial` set (file, offset, reason); packets read until then count. A file that is not a capture at all is a
 * FormatError at `open`.
 */
import { checkSeed } from "../base/checks.ts";
import { FormatError, invalidValue } from "../base/errors.ts";
import { cursorConstants, walkConstants } from "../base/kernel-layout.ts";
import type { Kernels } from "../base/kernels.ts";
import { PacketBatch } from "./batch.ts";
import type { FlowKeySpec } from "./flow/flow-key.ts";
import type { CaptureInterface } from "./format/pcapng-blocks.ts";
import { readHead } from "./format/read-head.ts";
import { type CaptureFormat, PCAP_HEADER_BYTES, type PcapHeader } from "./format/sniff.ts";
import { SpecialBlocks } from "./format/special-blocks.ts";
import { SKIP_REASONS } from "./reasons.ts";
import { type ByteSource, openByteSource } from "./source/byte-source.ts";
import { parseCapturePath } from "./source/capture-path.ts";
import { Chunk, type Shortage } from "./source/chunk.ts";
import { COOKED_V2, cookedIndex, isOneCooked, isPoint, notPointZero } from "./source/point-names.ts";
import { PointSource } from "./source/point-source.ts";
import type { CaptureTotals } from "./source/source.ts";

/** Selects rows of a batch by setting plane 0 of `select`. src/capture/filter/filter.ts compiles one from an expression. */
export interface RowFilter {
  select(batch: PacketBatch): void;
  /** The filter reads the identification column, which rows lack in lean batches. */
  readonly readsIdentification?: boolean;
}

export interface CaptureOptions {
  /** Number of bytes from the IP header on that the digest covers. Must be the same at both ends of a segment. */
  cover?: number;
  /** Look inside tunnels (GRE, VXLAN, Geneve, IP-in-IP, GTP-U). */
  inner?: boolean;
  /** Digests leave out addresses and ports, which NAT changes on the way. */
  nat?: boolean;
  filter?: RowFilter | undefined;
  key?: FlowKeySpec | undefined;
  /** Seed of digests and flow hashes. */
  seed?: bigint;
  batchRows?: number;
  /**
   * Only time, digest, key, length and flags of rows are read, not the bytes of their packets. Those bytes may be gone when a batch is returned, and the other
   * columns are not written.
   */
  rowsOnly?: boolean;
  /** Rows have the numbers of their frames. */
  frames?: boolean;
}

export const DEFAULT_COVER = 128;
export const DEFAULT_SEED = 0x686f_7074_696d_6531n; // "hoptime1"

export interface CaptureStatistics {
  file: string;
  format: CaptureFormat | "simulation" | "interface";
  packets: number;
  ipPackets: number;
  /** Bytes on the wire. */
  bytes: number;
  originNs: bigint | null;
  /** Time of the first packet in the file, and the latest time of any packet. */
  firstNs: bigint | null;
  lastNs: bigint | null;
  skipped: Record<string, number>;
  dropped: number | null;
  partial: string | null;
  interfaces: CaptureInterface[];
  warnings: string[];
  /** Packets cut within the bytes that the digest covers, by the bytes visible from the IP header on: [bytes, packets], ascending. */
  shorts: [number, number][];
}

/** Results of a walk. */
const { NEED_DATA, BATCH_FULL, SPECIAL, BAD_LENGTH } = cursorConstants;

/** Bytes read at a time if they are decoded right away: they stay in the cache. */
const NEAR_READ_BYTES = 1 << 18;
/** Limit of the drop counts that a file may claim, so that sums stay exact integers even after adding one. */
const MAX_DROPPED = Number.MAX_SAFE_INTEGER - 1;
const { SHORT_SIZES } = walkConstants;
const MIN_COVER = 20;
const MAX_COVER = 65_535;

const WALKS = { pcap: "walkPcap", pcapng: "walkPcapng", erf: "walkErf" } as const;

export class CaptureReader {
  readonly batch: PacketBatch;
  readonly format: CaptureFormat;
  readonly source: ByteSource;
  readonly #kernels: Kernels;
  readonly #options: CaptureOptions;
  readonly #seed: bigint;
  readonly #chunk: Chunk;
  readonly #walk: (cursor: number, batch: number) => number;
  #ended = false;
  #damage: { offset: number; what: string } | null = null;
  #filtered = 0;
  #rows = 0;
  /** Packets so far that were cut within the bytes that the digest covers. */
  shortPackets = 0;
  /** Address of the counts of cut packets by visible bytes (kernels/decode/walk.ts, countShorts). */
  readonly #shorts: number;
  readonly #blocks: SpecialBlocks;
  #keyMask = 0;
  /** Set once the kernel memory has been freed. */
  #final: CaptureStatistics | null = null;

  private constructor(
    kernels: Kernels,
    source: ByteSource,
    head: Uint8Array,
    format: CaptureFormat,
    options: CaptureOptions,
  ) {
    this.#kernels = kernels;
    this.source = source;
    this.format = format;
    this.#options = options;
    this.#seed = options.seed ?? DEFAULT_SEED;
    this.batch = new PacketBatch(kernels, options.batchRows);
    if (options.rowsOnly && !options.filter?.readsIdentification) this.batch.makeLean();
    if (options.frames) this.batch.keepFrames();
    this.#chunk = new Chunk(
      kernels,
      source,
      head,
      this.#seed,
      options.rowsOnly ? NEAR_READ_BYTES : undefined,
    );
    this.#blocks = new SpecialBlocks(kernels, this.#chunk);
    this.#walk = kernels.call[WALKS[format]] as (cursor: number, batch: number) => number;
    if (options.key) this.#keyMask = options.key.store(kernels);
    this.#shorts = kernels.alloc(4 * SHORT_SIZES);
    this.#shortCounts().fill(0);
    this.#chunk.set("cover", options.cover ?? DEFAULT_COVER);
    const { SPECIAL_INNER, SPECIAL_NAT } = cursorConstants;
    this.#chunk.set("special", (options.inner ? SPECIAL_INNER : 0) | (options.nat ? SPECIAL_NAT : 0));
  }

  /** Opens a capture and reads its head. `path` "-" is standard input; `#` and an interface after it select one point (capture-path.ts). */
  static async open(
    kernels: Kernels,
    path: string,
    options: CaptureOptions = {},
    signal?: AbortSignal,
  ): Promise<CaptureReader> {
    const { cover = DEFAULT_COVER, batchRows = 1, seed = DEFAULT_SEED } = options;
    checkSeed(seed);
    if (!Number.isInteger(cover) || cover < MIN_COVER || cover > MAX_COVER)
      throw invalidValue("cover", cover, `${MIN_COVER} to ${MAX_COVER} bytes`, { code: "bad-parameter" });
    if (!Number.isInteger(batchRows) || batchRows < 1)
      throw invalidValue("batchRows", batchRows, "a whole number of at least 1", { code: "bad-parameter" });
    const { file, point } = parseCapturePath(path);
    return await CaptureReader.of(kernels, await openByteSource(file, signal), point, options);
  }

  /** Reads a source that is already open; it is closed with the reader. */
  static async of(
    kernels: Kernels,
    source: ByteSource,
    point: string | null = null,
    options: CaptureOptions = {},
  ): Promise<CaptureReader> {
    try {
      const { head, found } = await readHead(source);
      if (found.format === null) throw new FormatError("unknown-format", source.name, 0, found.reason);
      if (point !== null && found.format !== "pcap") {
        const one = new PointSource(source, head, found.format, point);
        return new CaptureReader(kernels, one, new Uint8Array(0), found.format, options);
      }
      if (point !== null && found.format === "pcap" && found.header.link === COOKED_V2) {
        const one = new PointSource(source, head, found.header, point);
        const reader = new CaptureReader(kernels, one, new Uint8Array(0), found.format, options);
        reader.#beginPcap(found.header);
        return reader;
      }
      if (point !== null && point !== "0" && found.format === "pcap")
        throw notPointZero(source.name, point, found.header);
      const reader = new CaptureReader(kernels, source, head, found.format, options);
      if (found.format === "pcap") {
        reader.#chunk.advance(PCAP_HEADER_BYTES);
        reader.#beginPcap(found.header);
      }
      return reader;
    } catch (error) {
      source.close();
      throw error;
    }
  }

  #beginPcap(pcap: PcapHeader): void {
    const chunk = this.#chunk;
    chunk.set("swapped", pcap.swapped ? 1 : 0);
    chunk.set("nano", pcap.nano ? 1 : 0);
    chunk.set("link", pcap.link);
    chunk.set("recordHeader", pcap.modified ? 24 : 16);
    if (pcap.version !== "2.4") this.#blocks.warn(`pcap version ${pcap.version}, read as 2.4`);
    this.#blocks.interfaces.push({
      index: 0,
      name: null,
      description: null,
      link: pcap.link,
      snapLength: pcap.snapLength,
      resolution: pcap.nano ? "1e-9 s" : "1e-6 s",
      dropped: null,
    });
  }

  /** Returns whether the interface with this number is the one that `FILE#point` names. */
  isInterface(index: number, point: string): boolean {
    const { interfaces } = this.#blocks;
    if (this.format === "pcapng" && isOneCooked(interfaces))
      return isPoint(point, interfaces[0]) || index === cookedIndex(point);
    if (this.format === "pcapng") return isPoint(point, interfaces[index]);
    return index === (this.#blocks.interfaces[0]?.link === COOKED_V2 ? cookedIndex(point) : Number(point));
  }

  /** ns since 1970 at time 0 of the batches; null before the first packet. */
  get originNs(): bigint | null {
    return this.#final ? this.#final.originNs : this.#chunk.originNs;
  }

  /** Latest timestamp so far, in ns after the origin. */
  get maxTimeNs(): number {
    return this.#chunk.maxTimeNs;
  }

  /**
   * Fills the batch with the next rows, at least one. Returns false at the end of the capture, with an empty batch.
   */
  async next(): Promise<boolean> {
    while (await this.#fill()) {
      this.#finishBatch();
      if (this.batch.count > 0) return true;
    }
    return false;
  }

  async #fill(): Promise<boolean> {
    const { batch } = this;
    const chunk = this.#chunk;
    if (this.#final) return false;
    batch.count = 0;
    while (!this.#ended) {
      const outcome = this.#walk(chunk.cursor, batch.address);
      if (outcome === BATCH_FULL) break;
      if (outcome === SPECIAL) {
        if (batch.count > 0 && !this.#blocks.isAtHand()) break;
        this.#endIf(await this.#blocks.take());
      } else if (outcome === NEED_DATA) {
        // Rows point into the chunk: return them before it moves.
        if (batch.count > 0 && !this.#options.rowsOnly) break;
        this.#endIf(await chunk.refill(chunk.get("wanted")));
      } else {
        const what =
          outcome === BAD_LENGTH
            ? "impossible record length; the file is damaged from here on"
            : "the block's two lengths differ; the file is damaged from here on";
        this.#stop(chunk.offset, what);
      }
    }
    return batch.count > 0;
  }

  #finishBatch(): void {
    const { batch } = this;
    const { filter, key } = this.#options;
    this.shortPackets += this.#kernels.call.countShorts(batch.address, this.#shorts) >>> 0;
    if (filter) {
      filter.select(batch);
      this.#filtered += batch.compact();
    }
    this.#rows += batch.count;
    if (key) this.#kernels.call.keyFlows(batch.address, this.#keyMask, this.#seed);
  }

  #stop(offset: number, what: string): void {
    this.#ended = true;
    // Position in the file, counting the bytes of other points that were left out.
    const place = offset + (this.source instanceof PointSource ? this.source.leftOut : 0);
    this.#damage = { offset: place, what };
  }

  /** Where and why the capture ended early; null if it did not. */
  get damage(): { offset: number; what: string } | null {
    return this.#damage;
  }

  /** Returns the offset in the uncompressed capture of a byte that a row points to, such as its IP header. */
  offsetOf(address: number): number {
    return this.#chunk.offset - this.#chunk.get("pos") + address;
  }

  /** Returns false if the bytes are there; otherwise ends the capture, with or without a damage report. */
  #endIf(shortage: Shortage): boolean {
    if (shortage === null) return false;
    this.#ended = true;
    if (shortage !== "end") this.#stop(shortage.offset, shortage.what);
    return true;
  }

  #shortCounts(): Uint32Array {
    return this.#kernels.u32.subarray(this.#shorts >>> 2, (this.#shorts >>> 2) + SHORT_SIZES);
  }

  /** Returns the part of the statistics that epochs count; much cheaper than all statistics. */
  totals(): CaptureTotals {
    if (this.#final) return { ...this.#final, frames: this.#final.packets };
    const chunk = this.#chunk;
    const skipped: Record<string, number> = {};
    for (const [reason, i] of SKIP_REASONS) {
      const n = this.#kernels.readCounter(chunk.counters + 8 * i);
      if (n > 0) skipped[reason] = n;
    }
    if (this.#filtered > 0) skipped["filtered"] = this.#filtered;
    const perInterface = this.#blocks.interfaces.filter((i) => i.dropped !== null);
    let dropped: number | null = chunk.get("dropsKnown") > 0 ? chunk.counter("drops") : null;
    // Interface statistics are totals that include the drops which packet records may also report.
    if (perInterface.length > 0) {
      const total = perInterface.reduce((sum, i) => sum + (i.dropped ?? 0), 0);
      dropped = Math.max(dropped ?? 0, total);
    }
    if (dropped !== null) dropped = Math.min(dropped, MAX_DROPPED);
    return { frames: chunk.counter("packets"), skipped, dropped };
  }

  statistics(): CaptureStatistics {
    if (this.#final) return this.#final;
    const chunk = this.#chunk;
    const { frames, skipped, dropped } = this.totals();
    const originNs = chunk.originNs;
    return {
      file: this.source.name,
      format: this.format,
      packets: frames,
      ipPackets: this.#rows + this.#filtered,
      bytes: chunk.counter("bytes"),
      originNs,
      firstNs: originNs,
      lastNs: originNs === null ? null : originNs + BigInt(Math.round(chunk.maxTimeNs)),
      skipped,
      dropped,
      partial:
        this.#damage === null
          ? null
          : `${this.source.name}: at byte ${this.#damage.offset}: ${this.#damage.what}`,
      interfaces: this.#blocks.interfaces.filter(
        (i) => !(this.source instanceof PointSource) || this.source.holds(i.index),
      ),
      warnings: this.#blocks.warnings,
      shorts: [...this.#shortCounts().entries()].filter(([, n]) => n > 0),
    };
  }

  close(): void {
    this.source.close();
  }

  /** Frees the kernel memory; the batch must not be used afterwards. The statistics stay available. */
  free(): void {
    if (this.#final) return;
    this.#final = this.statistics();
    this.batch.free();
    this.#chunk.free();
    this.#blocks.free();
    this.#kernels.free(this.#shorts);
    if (this.#keyMask !== 0) this.#kernels.free(this.#keyMask);
  }
}
