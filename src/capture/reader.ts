/**
 * A capture as a stream of batches: bytes -> chunk in kernel memory -> walk and decode kernel -> PacketBatch, filtered and keyed.
 * Never the whole file in memory. Damage ends the stream with `partial` set (file, offset, reason); what was read until then
 * counts. A file that is no capture at all is a FormatError at `open`.
 */
import { FormatError } from "../base/errors.ts";
import type { Kernels } from "../base/kernels.ts";
import { PacketBatch } from "./batch.ts";
import { type ByteSource, openByteSource } from "./byte-source.ts";
import type { FlowKeySpec } from "./flow-key.ts";
import { BLOCK, type CaptureInterface, readInterface, readStatistics } from "./pcapng-blocks.ts";
import { SKIP_REASONS } from "./reasons.ts";
import { type CaptureFormat, PCAP_HEADER_BYTES, type PcapHeader, sniff } from "./sniff.ts";

/** Keeps some rows of a batch: sets plane 0 of `select`. src/capture/filter.ts makes one from an expression. */
export interface RowFilter {
  select(batch: PacketBatch): void;
}

export interface CaptureOptions {
  /** Bytes from the IP header on that the digest covers. Both ends of a segment must use the same. */
  cover?: number;
  /** Look inside tunnels (GRE, VXLAN, Geneve, IP-in-IP, GTP-U). */
  inner?: boolean;
  filter?: RowFilter | undefined;
  key?: FlowKeySpec | undefined;
  /** Seed of digests and flow hashes. */
  seed?: bigint;
  batchRows?: number;
}

export const DEFAULT_COVER = 128;
export const DEFAULT_SEED = 0x686f_7074_696d_6531n; // "hoptime1"

export interface CaptureStatistics {
  file: string;
  format: CaptureFormat;
  packets: number;
  ipPackets: number;
  /** On the wire. */
  bytes: number;
  originNs: bigint | null;
  firstNs: bigint | null;
  lastNs: bigint | null;
  skipped: Record<string, number>;
  dropped: number | null;
  partial: string | null;
  interfaces: CaptureInterface[];
  warnings: string[];
  /** Packets cut within the digest's coverage, by the bytes visible from the IP header on: [bytes, packets], ascending. */
  shorts: [number, number][];
}

// Cursor fields of kernels/walk.ts, in u32 words.
const CURSOR = {
  pos: 0,
  limit: 1,
  wanted: 2,
  swapped: 3,
  nano: 4,
  link: 5,
  recordHeader: 6,
  cover: 8,
  inner: 9,
  interfaces: 10,
  interfaceCount: 11,
  interfaceBase: 12,
  started: 13,
} as const;
const CURSOR_BYTES = {
  origin: 56,
  seed: 64,
  packets: 72,
  bytes: 80,
  drops: 88,
  dropsKnown: 96,
  maxTime: 120,
};
const NEED_DATA = 0;
const BATCH_FULL = 1;
const SPECIAL = 2;
const BAD_LENGTH = 3;

const READ_BYTES = 1 << 18;
const SHORT_SIZES = 1536;
/** Words may be loaded past the end of a frame. */
const PADDING = 64;
const INTERFACE_BYTES = 32;
/** Blocks that must be whole in memory to be understood; longer ones of these kinds are damage. */
const MAX_SPECIAL_BLOCK = 1 << 20;

export class CaptureReader {
  readonly batch: PacketBatch;
  readonly format: CaptureFormat;
  readonly source: ByteSource;
  readonly #kernels: Kernels;
  readonly #options: Required<Pick<CaptureOptions, "cover" | "inner" | "seed">> & CaptureOptions;
  readonly #cursor: number;
  readonly #counters: number;
  readonly #walk: (cursor: number, batch: number) => number;
  #chunk: number;
  #chunkBytes: number;
  /** Offset in the stream of the first byte of the chunk. */
  #base = 0;
  #ended = false;
  #partial: string | null = null;
  #filtered = 0;
  #rows = 0;
  readonly #shorts = new Map<number, number>();
  #interfaces: CaptureInterface[] = [];
  #warnings: string[] = [];
  #sectionStart = 0;
  #little = true;
  #interfaceTable = 0;
  #interfaceRoom = 0;
  #keyMask = 0;

  private constructor(kernels: Kernels, source: ByteSource, format: CaptureFormat, options: CaptureOptions) {
    this.#kernels = kernels;
    this.source = source;
    this.format = format;
    this.#options = {
      ...options,
      cover: options.cover ?? DEFAULT_COVER,
      inner: options.inner ?? false,
      seed: options.seed ?? DEFAULT_SEED,
    };
    this.batch = new PacketBatch(kernels, options.batchRows);
    this.#cursor = kernels.call.cursorNew!() >>> 0;
    this.#counters = this.#cursor + kernels.call.cursorFixedBytes!();
    this.#chunkBytes = 2 * READ_BYTES;
    this.#chunk = kernels.alloc(this.#chunkBytes + PADDING);
    this.#walk = kernels.call[
      format === "pcap" ? "walkPcap" : format === "pcapng" ? "walkPcapng" : "walkErf"
    ] as (cursor: number, batch: number) => number;
    if (options.key) this.#keyMask = options.key.store(kernels);
    this.#set("cover", this.#options.cover);
    this.#set("inner", this.#options.inner ? 1 : 0);
    kernels.u64[(this.#cursor + CURSOR_BYTES.seed) >>> 3] = this.#options.seed;
    this.#set("pos", this.#chunk);
    this.#set("limit", this.#chunk);
  }

  /** Opens a capture and reads its head. `path` "-" is standard input. */
  static async open(kernels: Kernels, path: string, options: CaptureOptions = {}): Promise<CaptureReader> {
    const source = await openByteSource(path);
    try {
      const head = new Uint8Array(READ_BYTES);
      let length = 0;
      while (length < head.length) {
        const got = await source.read(() => head.subarray(length));
        if (got === 0) break;
        length += got;
      }
      if (length === 0)
        throw new FormatError("empty", source.name, 0, "the file is empty: there is no capture in it");
      const found = sniff(head.subarray(0, length));
      if (found.format === null) throw new FormatError("unknown-format", source.name, 0, found.reason);
      const reader = new CaptureReader(kernels, source, found.format, options);
      reader.#begin(head.subarray(0, length), found.format === "pcap" ? found.header : null);
      return reader;
    } catch (error) {
      source.close();
      if ((error as { code?: string }).code?.startsWith("Z_")) {
        throw new FormatError(
          "bad-gzip",
          source.name,
          0,
          `the gzip data is damaged (${(error as Error).message})`,
          { cause: error },
        );
      }
      throw error;
    }
  }

  #begin(head: Uint8Array, pcap: PcapHeader | null): void {
    this.#kernels.u8.set(head, this.#chunk);
    this.#set("limit", this.#chunk + head.length);
    if (!pcap) return;
    this.#set("pos", this.#chunk + PCAP_HEADER_BYTES);
    this.#set("swapped", pcap.swapped ? 1 : 0);
    this.#set("nano", pcap.nano ? 1 : 0);
    this.#set("link", pcap.link);
    this.#set("recordHeader", pcap.modified ? 24 : 16);
    this.#interfaces.push({
      index: 0,
      name: null,
      description: null,
      link: pcap.link,
      snapLength: pcap.snapLength,
      resolution: pcap.nano ? "1e-9 s" : "1e-6 s",
      dropped: null,
    });
  }

  #get(field: keyof typeof CURSOR): number {
    return this.#kernels.u32[(this.#cursor >>> 2) + CURSOR[field]]!;
  }
  #set(field: keyof typeof CURSOR, value: number): void {
    this.#kernels.u32[(this.#cursor >>> 2) + CURSOR[field]] = value;
  }

  /** ns since 1970 of time 0 in the batches; null before the first packet. */
  get originNs(): bigint | null {
    if (this.#get("started") === 0) return null;
    return this.#kernels.i64[(this.#cursor + CURSOR_BYTES.origin) >>> 3]!;
  }

  /** Latest timestamp so far, ns after the origin. */
  get maxTimeNs(): number {
    return this.#kernels.f64[(this.#cursor + CURSOR_BYTES.maxTime) >>> 3]!;
  }

  /**
   * Fills the batch with the next rows, at least one. False at the end of the capture; the batch is then empty.
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
    batch.count = 0;
    while (!this.#ended) {
      const outcome = this.#walk(this.#cursor, batch.address);
      if (outcome === BATCH_FULL) break;
      if (outcome === SPECIAL) {
        if (batch.count > 0 && !this.#wholeBlockAtHand()) break;
        await this.#special();
        continue;
      }
      if (outcome === NEED_DATA) {
        // Rows point into the chunk: hand them out before it moves.
        if (batch.count > 0) break;
        await this.#refill(this.#get("wanted"));
        continue;
      }
      const what =
        outcome === BAD_LENGTH
          ? "the record's length cannot be right; the file is damaged from here on"
          : "the block's two lengths differ; the file is damaged from here on";
      this.#stop(this.#offset(), what);
    }
    return batch.count > 0;
  }

  #finishBatch(): void {
    const { batch } = this;
    const { filter, key, seed } = this.#options;
    this.#countShorts();
    if (filter) {
      filter.select(batch);
      this.#filtered += batch.compact();
    }
    this.#rows += batch.count;
    if (key) this.#kernels.call.keyFlows!(batch.address, this.#keyMask, seed);
  }

  /** The kernel counts cut packets in one place for all readers: taken after each of our walks. */
  #countShorts(): void {
    const at = this.#kernels.call.takeShorts!() >>> 0;
    if (at === 0) return;
    const counts = this.#kernels.u32.subarray(at >>> 2, (at >>> 2) + SHORT_SIZES);
    for (const [size, n] of counts.entries())
      if (n > 0) this.#shorts.set(size, (this.#shorts.get(size) ?? 0) + n);
    counts.fill(0);
  }

  #offset(): number {
    return this.#base + this.#get("pos") - this.#chunk;
  }

  #stop(offset: number, what: string): void {
    this.#ended = true;
    this.#partial = `${this.source.name}: at byte ${offset}: ${what}`;
  }

  /** Moves the rest of the chunk to its start and reads on until `wanted` bytes are there; ends the stream where they are not. */
  async #refill(wanted: number): Promise<boolean> {
    const kernels = this.#kernels;
    let have = this.#get("limit") - this.#get("pos");
    this.#base += this.#get("pos") - this.#chunk;
    if (wanted > this.#chunkBytes) {
      const bytes = wanted + READ_BYTES;
      const bigger = kernels.alloc(bytes + PADDING);
      kernels.u8.copyWithin(bigger, this.#get("pos"), this.#get("limit"));
      kernels.free(this.#chunk);
      this.#chunk = bigger;
      this.#chunkBytes = bytes;
    } else {
      kernels.u8.copyWithin(this.#chunk, this.#get("pos"), this.#get("limit"));
    }
    this.#set("pos", this.#chunk);
    let failed: string | null = null;
    do {
      const start = this.#chunk + have;
      const end = Math.min(start + READ_BYTES, this.#chunk + this.#chunkBytes);
      let got = 0;
      try {
        const reading = this.source.read(() => kernels.u8.subarray(start, end));
        got = typeof reading === "number" ? reading : await reading;
      } catch (error) {
        failed = `reading failed (${(error as Error).message})`;
      }
      if (got === 0) break;
      have += got;
    } while (have < wanted);
    this.#set("limit", this.#chunk + have);
    if (have >= wanted) return true;
    this.#ended = true;
    if (failed) this.#stop(this.#base + have, failed);
    else if (have > 0)
      this.#stop(this.#base, `the file ends within a record (${have} of at least ${wanted} bytes are there)`);
    return false;
  }

  /** Handling the block at `pos` does not move the chunk that rows point into. */
  #wholeBlockAtHand(): boolean {
    const have = this.#get("limit") - this.#get("pos");
    if (have < 12) return false;
    return new DataView(this.#kernels.memory.buffer, this.#get("pos"), 12).getUint32(4, this.#little) <= have;
  }

  /** A pcapng block that is not a packet, at `pos`. */
  async #special(): Promise<void> {
    const kernels = this.#kernels;
    const at = () =>
      new DataView(kernels.memory.buffer, this.#get("pos"), this.#get("limit") - this.#get("pos"));
    if (at().byteLength < 12 && !(await this.#refill(12))) return;
    let type = at().getUint32(0, this.#little);
    if (type === BLOCK.section) {
      const magic = at().getUint32(8, true);
      if (magic !== 0x1a2b3c4d && magic !== 0x4d3c2b1a) {
        this.#stop(
          this.#offset() + 8,
          "the section header's byte-order magic is neither 1a2b3c4d nor 4d3c2b1a",
        );
        return;
      }
      this.#little = magic === 0x1a2b3c4d;
      this.#set("swapped", this.#little ? 0 : 1);
      type = BLOCK.section;
    }
    const length = at().getUint32(4, this.#little);
    const known = type === BLOCK.section || type === BLOCK.interface || type === BLOCK.statistics;
    const least =
      type === BLOCK.section ? 28 : type === BLOCK.interface ? 20 : type === BLOCK.statistics ? 24 : 12;
    if (length < least || length % 4 !== 0 || (known && length > MAX_SPECIAL_BLOCK)) {
      this.#stop(
        this.#offset(),
        `the block's length (${length}) cannot be right; the file is damaged from here on`,
      );
      return;
    }
    if (!known) {
      await this.#skip(length);
      return;
    }
    if (at().byteLength < length && !(await this.#refill(length))) return;
    const block = new DataView(kernels.memory.buffer, this.#get("pos"), length);
    if (block.getUint32(length - 4, this.#little) !== length) {
      this.#stop(this.#offset(), "the block's two lengths differ; the file is damaged from here on");
      return;
    }
    if (type === BLOCK.section) {
      this.#sectionStart = this.#interfaces.length;
      this.#set("interfaceBase", this.#sectionStart);
      this.#set("interfaceCount", 0);
    } else if (type === BLOCK.interface) this.#addInterface(block);
    else {
      const told = readStatistics(block, this.#little);
      const iface = told ? this.#interfaces[this.#sectionStart + told.section] : undefined;
      // Statistics are running totals: the last one counts.
      if (told && iface) iface.dropped = told.dropped;
    }
    this.#set("pos", this.#get("pos") + length);
  }

  async #skip(length: number): Promise<void> {
    let left = length;
    for (;;) {
      const have = this.#get("limit") - this.#get("pos");
      const step = Math.min(left, have);
      this.#set("pos", this.#get("pos") + step);
      left -= step;
      if (left === 0) return;
      const offset = this.#offset();
      if (!(await this.#refill(1))) {
        this.#stop(offset, `the file ends within a block (${left} of ${length} bytes are missing)`);
        return;
      }
    }
  }

  #addInterface(block: DataView): void {
    const kernels = this.#kernels;
    const { description, ticks, warning } = readInterface(block, this.#little, this.#interfaces.length);
    if (warning) this.#warnings.push(warning);
    this.#interfaces.push(description);
    const inSection = this.#interfaces.length - this.#sectionStart;
    if (inSection > this.#interfaceRoom) {
      const room = Math.max(16, 2 * inSection);
      const table = kernels.alloc(room * INTERFACE_BYTES);
      if (this.#interfaceTable !== 0) {
        kernels.u8.copyWithin(
          table,
          this.#interfaceTable,
          this.#interfaceTable + (inSection - 1) * INTERFACE_BYTES,
        );
        kernels.free(this.#interfaceTable);
      }
      this.#interfaceTable = table;
      this.#interfaceRoom = room;
      this.#set("interfaces", table);
    }
    const entry = this.#interfaceTable + (inSection - 1) * INTERFACE_BYTES;
    kernels.u32[entry >>> 2] = description.link;
    kernels.u32[(entry >>> 2) + 1] = ticks.kind;
    kernels.u64[(entry >>> 3) + 1] = ticks.scale;
    kernels.i64[(entry >>> 3) + 2] = ticks.offsetNs;
    kernels.u32[(entry >>> 2) + 6] = description.snapLength;
    this.#set("interfaceCount", inSection);
  }

  statistics(): CaptureStatistics {
    const kernels = this.#kernels;
    const skipped: Record<string, number> = {};
    SKIP_REASONS.forEach((reason, i) => {
      const n = i > 0 ? kernels.readCounter(this.#counters + 8 * i) : 0;
      if (n > 0) skipped[reason] = n;
    });
    if (this.#filtered > 0) skipped["filtered"] = this.#filtered;
    const originNs = this.originNs;
    const perInterface = this.#interfaces.filter((i) => i.dropped !== null);
    let dropped: number | null = null;
    if (kernels.u32[(this.#cursor + CURSOR_BYTES.dropsKnown) >>> 2]! > 0) {
      dropped = kernels.readCounter(this.#cursor + CURSOR_BYTES.drops);
    }
    // Interface statistics are the totals of what packet records may also tell one by one.
    if (perInterface.length > 0) {
      dropped = Math.max(
        dropped ?? 0,
        perInterface.reduce((sum, i) => sum + (i.dropped ?? 0), 0),
      );
    }
    return {
      file: this.source.name,
      format: this.format,
      packets: kernels.readCounter(this.#cursor + CURSOR_BYTES.packets),
      ipPackets: this.#rows + this.#filtered,
      bytes: kernels.readCounter(this.#cursor + CURSOR_BYTES.bytes),
      originNs,
      firstNs: originNs,
      lastNs: originNs === null ? null : originNs + BigInt(Math.round(this.maxTimeNs)),
      skipped,
      dropped,
      partial: this.#partial,
      interfaces: this.#interfaces,
      warnings: this.#warnings,
      shorts: [...this.#shorts].sort((a, b) => a[0] - b[0]),
    };
  }

  close(): void {
    this.source.close();
  }

  /** Gives the kernel memory back; the batch is not to be used any more. */
  free(): void {
    this.batch.free();
    this.#kernels.free(this.#chunk);
    this.#kernels.free(this.#cursor);
    if (this.#interfaceTable !== 0) this.#kernels.free(this.#interfaceTable);
    if (this.#keyMask !== 0) this.#kernels.free(this.#keyMask);
  }
}
