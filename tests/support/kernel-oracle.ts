/** The row that the WASM kernels make of a frame, and taps fed with it: the oracle for the programs in datapath/. */
import { CursorLayout } from "../../src/base/kernel-layout.ts";
import { Kernels } from "../../src/base/kernels.ts";
import { PacketBatch } from "../../src/capture/batch.ts";
import { type CompiledFilter, compileFilter } from "../../src/capture/filter/filter.ts";
import { FlowKeySpec } from "../../src/capture/flow/flow-key.ts";
import { SKIP_REASONS } from "../../src/capture/reasons.ts";
import { Chunk } from "../../src/capture/source/chunk.ts";
import type { Tap } from "../../src/estimators/estimator.ts";

export interface OracleRow {
  /** Number of the reason; 0: a row. */
  reason: number;
  digest: bigint;
  meta: bigint;
  addresses: bigint[];
  flags: number;
  ipid: number;
  passed: boolean;
  flowHash: bigint;
  maskedMeta: bigint;
}

export class KernelOracle {
  readonly kernels = new Kernels();
  readonly #batch = new PacketBatch(this.kernels, 4);
  readonly #chunk: Chunk;
  readonly #start: number;
  readonly #mask: number;
  readonly #filter: CompiledFilter | null;
  readonly #seed: bigint;

  constructor(cover: number, key: string, seed: bigint, filter: string) {
    const nothing = { name: "memory", size: 0, consumed: () => 0, rereadable: false, compressed: false };
    this.#chunk = new Chunk(
      this.kernels,
      { ...nothing, read: () => 0, close: () => {} },
      new Uint8Array(0),
      seed,
    );
    this.#start = this.#chunk.get("pos");
    this.#chunk.set("recordHeader", 16);
    this.#chunk.set("link", 1);
    this.#chunk.set("cover", cover);
    this.kernels.u64[(this.#chunk.cursor + CursorLayout.seed) >>> 3] = seed;
    this.#mask = FlowKeySpec.parse(key).store(this.kernels);
    this.#filter = filter === "" ? null : compileFilter(filter, this.kernels);
    this.#seed = seed;
  }

  /** `timeNs`: when the kernel saw it, relative to `startNs` of the taps. Direction flags are not compared. */
  feed(frame: Uint8Array, timeNs: number, taps: readonly Tap[]): OracleRow {
    const { kernels } = this;
    const batch = this.#batch;
    const record = Buffer.alloc(16 + frame.length + 64, 0xff);
    record.writeUInt32LE(1, 0);
    record.writeUInt32LE(0, 4);
    record.writeUInt32LE(frame.length, 8);
    record.writeUInt32LE(frame.length, 12);
    record.set(frame, 16);
    kernels.u8.set(record, this.#start);
    this.#chunk.set("pos", this.#start);
    this.#chunk.set("limit", this.#start + 16 + frame.length);
    batch.count = 0;
    const before = this.#counters();
    kernels.call.walkPcap(this.#chunk.cursor, batch.address);
    if (batch.count === 0) {
      const changed = this.#counters().findIndex((n, i) => n !== before[i]);
      return { ...NO_ROW, reason: SKIP_REASONS[changed]?.[1] ?? -1 };
    }
    const wide = (column: Uint32Array) => (BigInt(column[1] ?? 0) << 32n) | BigInt(column[0] ?? 0);
    const meta = wide(batch.meta);
    const v6 = (meta & (1n << 59n)) !== 0n;
    const addresses = [batch.addrA, ...(v6 ? [batch.addrB, batch.addrC, batch.addrD] : [])].map(wide);
    const row = {
      ...{ reason: 0, digest: wide(batch.digest), meta, addresses },
      ...{ flags: batch.flags[0] ?? 0, ipid: batch.ipid[0] ?? 0 },
    };
    this.#filter?.select(batch);
    const passed = this.#filter === null || kernels.u8[batch.column("select")] !== 0;
    kernels.call.keyFlows(batch.address, this.#mask, this.#seed);
    const keyed = { flowHash: wide(batch.flowHash), maskedMeta: wide(batch.meta) };
    batch.timeNs[0] = timeNs;
    if (passed) for (const tap of taps) tap.update(batch, 0, 1);
    return { ...row, ...keyed, passed };
  }

  #counters(): number[] {
    return SKIP_REASONS.map(([, i]) => this.kernels.readCounter(this.#chunk.counters + 8 * i));
  }
}

const NO_ROW: OracleRow = {
  ...{ reason: -1, digest: 0n, meta: 0n, addresses: [], flags: 0, ipid: 0 },
  ...{ passed: false, flowHash: 0n, maskedMeta: 0n },
};
