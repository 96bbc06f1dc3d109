/** Runs the decode kernel on single frames, without a file. */
import { CursorLayout } from "../../src/base/kernel-layout.ts";
import { Kernels } from "../../src/base/kernels.ts";
import { PacketBatch } from "../../src/capture/batch.ts";
import { DEFAULT_COVER, DEFAULT_SEED } from "../../src/capture/reader.ts";
import { SKIP_REASONS } from "../../src/capture/reasons.ts";
import type { ByteSource } from "../../src/capture/source/byte-source.ts";
import { Chunk } from "../../src/capture/source/chunk.ts";
import { plainRow } from "./capture-rows.ts";
import type { TwinOptions, TwinResult } from "./decode-twin.ts";

const NOTHING: ByteSource = {
  name: "memory",
  size: 0,
  consumed: () => 0,
  rereadable: false,
  compressed: false,
  read: () => 0,
  close: () => {},
};

export class FrameDecoder {
  readonly #kernels = new Kernels();
  readonly #batch = new PacketBatch(this.#kernels, 4);
  readonly #chunk = new Chunk(this.#kernels, NOTHING, new Uint8Array(0), DEFAULT_SEED);
  readonly #start = this.#chunk.get("pos");

  /** `after` is the content of memory behind the frame; it must not matter. */
  decode(
    link: number,
    frame: Uint8Array,
    wire: number,
    { cover = DEFAULT_COVER, inner = false, seed = DEFAULT_SEED }: TwinOptions = {},
    after = 0xff,
  ): TwinResult {
    const kernels = this.#kernels;
    const chunk = this.#chunk;
    const record = Buffer.alloc(16 + frame.length + 64, after);
    record.writeUInt32LE(1, 0);
    record.writeUInt32LE(0, 4);
    record.writeUInt32LE(frame.length, 8);
    record.writeUInt32LE(wire, 12);
    record.set(frame, 16);
    kernels.u8.set(record, this.#start);
    chunk.set("pos", this.#start);
    chunk.set("limit", this.#start + 16 + frame.length);
    chunk.set("recordHeader", 16);
    chunk.set("link", link);
    chunk.set("cover", cover);
    chunk.set("special", inner ? 1 : 0);
    kernels.u64[(chunk.cursor + CursorLayout.seed) >>> 3] = seed;
    this.#batch.count = 0;
    const before = this.#counters();
    kernels.call.walkPcap(chunk.cursor, this.#batch.address);
    if (this.#batch.count === 1) {
      const { iface, timeNs, wireLength, ...row } = plainRow(this.#batch, 0n, 0);
      return { reason: null, row };
    }
    const reason = this.#counters().findIndex((n, i) => n !== before[i]);
    return { reason: SKIP_REASONS[reason]?.[0] ?? `counter ${reason}` };
  }

  #counters(): number[] {
    return SKIP_REASONS.map(([, i]) => this.#kernels.readCounter(this.#chunk.counters + 8 * i));
  }
}
