/** The updating half of an LDA at one point: cells in kernel memory, one kernel call per batch. */
import type { PacketBatch } from "../../capture/batch.ts";
import type { KernelKept, KernelPart } from "../../capture/ebpf/kernel-plan.ts";
import { foldCells } from "../cells/fold.ts";
import type { SealedEpoch, Tap, TapContext } from "../estimator.ts";
import type { LdaParameters } from "./parameters.ts";
import { encodeRows, fingerprint, type LdaRows } from "./payload.ts";
import { hashRanges } from "./sampling.ts";

const CELL_BYTES = 16;

export class LdaTap implements Tap {
  readonly memoryBytes: number;
  readonly #context: TapContext;
  readonly #parameters: LdaParameters;
  readonly #address: number;
  #startNs = 0;
  #packets = 0;

  constructor(context: TapContext, parameters: LdaParameters) {
    const { call } = context.kernels;
    const { banks, rows } = parameters;
    this.#context = context;
    this.#parameters = parameters;
    this.memoryBytes = banks * rows * CELL_BYTES;
    context.kernels.ensure(this.memoryBytes);
    this.#address = call.ldaNew(banks, rows, BigInt.asUintN(64, context.seed)) >>> 0;
    const { from, limit } = hashRanges(parameters.sampling);
    for (const [bank, edge] of from.entries()) call.ldaSetThreshold(this.#address, bank, edge);
    call.ldaSetLimit(this.#address, limit);
  }

  begin(epochStartNs: number): void {
    this.#startNs = epochStartNs;
  }

  update(batch: PacketBatch, from: number, to: number): void {
    this.#context.kernels.call.ldaUpdate(this.#address, batch.address, from, to, this.#startNs);
    this.#packets += to - from;
  }

  take({ cells, packets }: KernelKept): void {
    const { kernels } = this.#context;
    foldCells(kernels, kernels.call.ldaCells(this.#address) >>> 0, cells);
    this.#packets += packets;
  }

  seal(): SealedEpoch {
    const { kernels, seed } = this.#context;
    const { banks, rows, digest } = this.#parameters;
    const cells = banks * rows;
    const start = kernels.call.ldaCells(this.#address) >>> 0;
    const words = kernels.u32.subarray(start >>> 2, (start + cells * CELL_BYTES) >>> 2);
    const sums = kernels.i64.subarray(start >>> 3, (start + cells * CELL_BYTES) >>> 3);
    const out: LdaRows = {
      banks,
      rows,
      fingerprint: fingerprint(seed, this.#parameters),
      sum: BigInt64Array.from({ length: cells }, (_, i) => sums[2 * i]!),
      count: Uint32Array.from({ length: cells }, (_, i) => words[4 * i + 2]!),
      digest: digest ? Uint32Array.from({ length: cells }, (_, i) => words[4 * i + 3]!) : null,
    };
    const sealed = { payload: encodeRows(out), packets: this.#packets };
    kernels.call.ldaClear(this.#address);
    this.#packets = 0;
    return sealed;
  }

  free(): void {
    this.#context.kernels.call.ldaFree(this.#address);
  }
}

/** Returns the description of the same updates for the eBPF program. */
export function kernelPart({ banks, rows, sampling }: LdaParameters, seed: bigint): KernelPart {
  const { from, limit } = hashRanges(sampling);
  return { kind: "lda", cells: banks * rows, rows, seed: BigInt.asUintN(64, seed), limit, from };
}
