/**
 * Groups consecutive rows of a batch with the same flow key into runs (kernels/flows/key-runs.ts). The exact matcher looks up flows by run, and runs are sent
 * to another thread instead of a key per packet.
 */
import { keyRunsConstants } from "../../base/kernel-layout.ts";
import type { Kernels } from "../../base/kernels.ts";
import type { PacketBatch } from "../batch.ts";
import type { FlowKeySpec } from "./flow-key.ts";

/**
 * RUNS_HEAD: the minimum and maximum time of the rows, outliers excluded (timestamp-trust.ts), before the runs. WIDE_RUN: extra bytes of a run with an IPv6
 * key, stored behind all runs.
 */
export const {
  RUNS_HEAD: RUNS_HEAD_BYTES,
  RUN: RUN_BYTES,
  WIDE_RUN: WIDE_RUN_BYTES,
  ROW_KEY: ROW_KEY_BYTES,
} = keyRunsConstants;

export class KeyRuns {
  /** Address of the runs in kernel memory. */
  readonly address: number;
  readonly capacity: number;
  /** Number of runs of the last `find` or `set`, and whether some of them have IPv6 keys. perRow: entries are rows, each with its own key, instead of runs. */
  count = 0;
  wide = false;
  perRow = false;
  readonly #kernels: Kernels;

  /** `capacity`: the batches' capacity. `address`: existing memory to use. */
  constructor(kernels: Kernels, capacity: number, address?: number) {
    this.#kernels = kernels;
    this.capacity = capacity;
    this.address = address ?? kernels.alloc(RUNS_HEAD_BYTES + capacity * (RUN_BYTES + WIDE_RUN_BYTES));
  }

  /** Finds the runs of rows [from, to). `mask`: address of a FlowKeySpec's mask; `seed`: seed of the keys' hashes. */
  find(batch: PacketBatch, from: number, to: number, mask: number, seed: bigint): void {
    const result: number = this.#kernels.call.keyRuns(batch.address, from, to, mask, seed, this.address);
    this.count = result & 0x7fff_ffff;
    this.wide = result < 0;
    this.perRow = false;
  }

  /** Stores the keys of rows [from, to) when only a few will be looked up: one per row if all are IPv4, otherwise as runs. */
  findRows(batch: PacketBatch, from: number, to: number, mask: number, seed: bigint): void {
    if (this.#kernels.call.keyRows(batch.address, from, to, mask, this.address) === 0) {
      this.find(batch, from, to, mask, seed);
      return;
    }
    this.count = to - from;
    this.wide = false;
    this.perRow = to > from;
  }

  /** The count in the form that kernels take. */
  get code(): number {
    return this.perRow ? this.count | keyRunsConstants.KEY_PER_ROW : this.count;
  }

  /** Bytes in use from `address` on, without the IPv6 parts. */
  get bytes(): number {
    return RUNS_HEAD_BYTES + this.count * (this.perRow ? ROW_KEY_BYTES : RUN_BYTES);
  }

  /** Takes the minimum and maximum time of rows [from, to) from `timeNs` instead of their timestamps. */
  setBounds(timeNs: Float64Array, from: number, to: number): void {
    let minimum = Number.POSITIVE_INFINITY;
    let maximum = Number.NEGATIVE_INFINITY;
    for (let i = from; i < to; i++) {
      minimum = Math.min(minimum, timeNs[i]!);
      maximum = Math.max(maximum, timeNs[i]!);
    }
    this.#kernels.writeF64(this.address, minimum);
    this.#kernels.writeF64(this.address + 8, maximum);
  }

  /** Address of the IPv6 parts of runs. */
  get wideAddress(): number {
    return this.address + RUNS_HEAD_BYTES + this.capacity * RUN_BYTES;
  }

  free(): void {
    this.#kernels.free(this.address);
  }
}

/** Finds runs by one key. */
export class RunFinder {
  readonly runs: KeyRuns;
  readonly #mask: number;
  readonly #seed: bigint;
  readonly #kernels: Kernels;

  constructor(kernels: Kernels, key: FlowKeySpec, seed: bigint, capacity: number) {
    this.#kernels = kernels;
    this.runs = new KeyRuns(kernels, capacity);
    this.#mask = key.store(kernels);
    this.#seed = seed;
  }

  find(batch: PacketBatch, from: number, to: number): KeyRuns {
    this.runs.find(batch, from, to, this.#mask, this.#seed);
    return this.runs;
  }

  findRows(batch: PacketBatch, from: number, to: number): KeyRuns {
    this.runs.findRows(batch, from, to, this.#mask, this.#seed);
    return this.runs;
  }

  free(): void {
    this.runs.free();
    this.#kernels.free(this.#mask);
  }
}
