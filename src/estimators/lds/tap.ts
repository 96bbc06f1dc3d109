/** The tap of LDS and SDS: cells in kernel memory, updated by kernels/sketches/lds.ts, sealed into a payload. */
import { ByteWriter } from "../../base/bytes.ts";
import { type Kernels, memoryError } from "../../base/kernels.ts";
import type { PacketBatch } from "../../capture/batch.ts";
import type { KernelKept, KernelPart, KernelPlaces } from "../../capture/ebpf/kernel-plan.ts";
import { foldCells } from "../cells/fold.ts";
import { saltedSeed } from "../cells/salt.ts";
import type { SealedEpoch, Tap } from "../estimator.ts";
import { heaviestOf } from "./counted-keys.ts";
import { fingerprint, type Geometry, rowSeeds, samplingThreshold } from "./geometry.ts";
import { type HeavyKeys, HeavyKeysTap, heavyKeysBytes, writeHeavyKeys } from "./heavy-keys.ts";
import { centreOf, writeHead } from "./payload.ts";
import { parseWeights, RowWeights } from "./weights.ts";

export interface SketchOptions {
  geometry: Geometry;
  seed: bigint;
  digestBits: number;
  bytes: boolean;
  /** Number of flow keys to keep. */
  keys: number;
  /** Sum the delay column instead of times. */
  delays: boolean;
}

/** Layout as in kernels/sketches/lds.ts. */
export const CELL_BYTES = 16;
export const ROW_BYTES = 32;
const TOTAL = 24;
const PACK_BYTES = 1 << 14;

export function sketchBytes({
  rows,
  columns,
  bytes,
  keys,
}: {
  rows: number;
  columns: number;
  bytes: boolean;
  keys: number;
}): number {
  return rows * (columns * (bytes ? CELL_BYTES + 8 : CELL_BYTES) + ROW_BYTES) + heavyKeysBytes(keys);
}

export class SketchTap implements Tap {
  readonly memoryBytes: number;
  readonly #kernels: Kernels;
  readonly #options: SketchOptions;
  readonly #weights: RowWeights | null;
  readonly #address: number;
  readonly #keys: HeavyKeysTap | null;
  /** Buffer through which the payload is sealed piece by piece. */
  #room: number | null = null;
  #packets = 0;
  #salt = 0n;
  /** Flows that the eBPF program counted. */
  #counted: HeavyKeys | null = null;

  constructor(kernels: Kernels, options: SketchOptions) {
    const { rows, columns, k, weights } = options.geometry;
    this.#kernels = kernels;
    this.#options = options;
    this.memoryBytes = sketchBytes({ rows, columns, bytes: options.bytes, keys: options.keys });
    const classes = parseWeights(weights);
    this.#weights = classes.length > 0 ? new RowWeights(kernels, classes) : null;
    try {
      const cells = rows * columns;
      kernels.ensure(cells * CELL_BYTES, options.bytes ? cells * 8 : 0, heavyKeysBytes(options.keys));
      this.#keys = options.keys > 0 ? new HeavyKeysTap(kernels, options.keys) : null;
      this.#address = kernels.call.ldsNew(rows, columns, k, options.delays, options.bytes) >>> 0;
    } catch (error) {
      this.#weights?.free();
      throw memoryError(error, "a sketch of flows", `fewer cells: rows=${rows}, columns=${columns}`) ?? error;
    }
    this.#place();
  }

  begin(epochStartNs: number, _originNs?: bigint, salt = 0n): void {
    this.#kernels.call.ldsBegin(this.#address, epochStartNs);
    if (salt === this.#salt) return;
    this.#salt = salt;
    this.#place();
  }

  /** Gives the rows the epoch's seeds. */
  #place(): void {
    const { geometry, seed } = this.#options;
    for (const [row, { flow, packet }] of wideSeeds(geometry, seed, this.#salt).entries())
      this.#kernels.call.ldsRow(this.#address, row, flow, packet, thresholdOf(geometry, row));
  }

  update(batch: PacketBatch, from: number, to: number): void {
    const weights = this.#weights?.of(batch) ?? 0;
    this.#kernels.call.ldsUpdate(this.#address, batch.address, from, to, weights);
    if (to > from) this.#keys?.update(batch, from, to);
    this.#packets += Math.max(0, to - from);
  }

  take(kept: KernelKept): void {
    const { cells, packets } = kept;
    const { call } = this.#kernels;
    foldCells(this.#kernels, call.ldsCells(this.#address) >>> 0, cells);
    call.ldsCountRows(this.#address);
    this.#packets += packets;
    if (this.#options.keys > 0) this.#counted = heaviestOf(kept, this.#options.keys);
  }

  seal(): SealedEpoch {
    const { geometry, seed, digestBits, bytes, delays } = this.#options;
    const { rows, columns } = geometry;
    const { call } = this.#kernels;
    const table = call.ldsTable(this.#address) >>> 0;
    const centre = centreOf(call.ldsSum(this.#address), call.ldsCounted(this.#address));
    const out = new ByteWriter(1 << 16);
    const head = {
      ...{ rows, columns, digestBits, bytes, delays, salt: this.#salt },
      fingerprint: fingerprint(geometry, saltedSeed(seed, this.#salt)),
      totals: Array.from({ length: rows }, (_, row) =>
        this.#kernels.readCounter(table + row * ROW_BYTES + TOTAL),
      ),
      keys: this.#sealKeys(),
    };
    writeHead(out, head, centre);
    this.#writePlanes(out, centre);
    const packets = this.#packets;
    this.#packets = 0;
    call.ldsClear(this.#address);
    return { payload: out.finish(), packets };
  }

  #sealKeys(): Uint8Array | null {
    const counted = this.#counted;
    if (!counted) return this.#keys?.seal() ?? null;
    this.#counted = null;
    const out = new ByteWriter(32 + 40 * counted.count);
    writeHeavyKeys(out, counted);
    return out.finish();
  }

  #writePlanes(out: ByteWriter, centre: number): void {
    const { call } = this.#kernels;
    this.#room ??= this.#kernels.alloc(PACK_BYTES);
    const packing = call.ldsPackNew(this.#options.digestBits, centre);
    for (;;) {
      const length = call.ldsPack(this.#address, packing, this.#room, PACK_BYTES) >>> 0;
      if (length === 0) return;
      out.bytes(this.#kernels.u8.subarray(this.#room, this.#room + length));
    }
  }

  free(): void {
    this.#weights?.free();
    this.#keys?.free();
    if (this.#room !== null) this.#kernels.free(this.#room);
    this.#kernels.call.ldsFree(this.#address);
  }
}

/** Returns each row's seeds in the epoch with this salt. */
function wideSeeds({ rows }: Geometry, seed: bigint, salt: bigint): { flow: bigint; packet: bigint }[] {
  return rowSeeds(saltedSeed(seed, salt), rows).map((s) => ({
    flow: (BigInt(s.flowHi) << 32n) | BigInt(s.flowLo),
    packet: (BigInt(s.packetHi) << 32n) | BigInt(s.packetLo),
  }));
}

function thresholdOf({ rates }: Geometry, row: number): bigint {
  return BigInt(samplingThreshold(rates[row] ?? 1));
}

/** Flows that the eBPF program counts per key; the heaviest become the keys. */
const FLOWS_PER_KEY = 16;
const MAX_FLOWS = 1 << 20;

/** Returns the description of the same updates for the eBPF program, which also counts flows if their keys are to be kept; or the reason why it cannot. */
export function kernelPart(geometry: Geometry, bytes: boolean, keys: number): KernelPart | string {
  const { rows, columns, k, weights } = geometry;
  if (bytes) return "bytes are not counted there";
  if (weights !== "") return "flows have no weights there";
  const thresholds = Array.from({ length: rows }, (_, row) => thresholdOf(geometry, row));
  const flows = Math.min(MAX_FLOWS, keys * FLOWS_PER_KEY);
  return { kind: "lds", cells: rows * columns, rows, columns, k, thresholds, flows };
}

export function kernelPlaces(geometry: Geometry, seed: bigint, salt: bigint): KernelPlaces {
  return { kind: "lds", rows: wideSeeds(geometry, seed, salt) };
}
