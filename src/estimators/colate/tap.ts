/** The updating half of COLATE at one point: counter vectors in kernel memory, one kernel call per batch. */
import type { PacketBatch } from "../../capture/batch.ts";
import type { KernelKept, KernelPart, KernelPlaces } from "../../capture/ebpf/kernel-plan.ts";
import { foldCells } from "../cells/fold.ts";
import { saltedSeed } from "../cells/salt.ts";
import type { SealedEpoch, Tap, TapContext } from "../estimator.ts";
import { CELL_BYTES, createCounters, placeCounters, slotsOf } from "./layout.ts";
import { type ColateParameters, fullAt } from "./parameters.ts";
import { type Counters, emptyCounters, encodeCounters } from "./payload.ts";

export class ColateTap implements Tap {
  readonly memoryBytes: number;
  readonly #context: TapContext;
  readonly #parameters: ColateParameters;
  readonly #address: number;
  readonly #fullAt: number;
  #startNs = 0;
  #packets = 0;
  #salt = 0n;

  constructor(context: TapContext, parameters: ColateParameters) {
    this.#context = context;
    this.#parameters = parameters;
    this.#fullAt = fullAt(parameters);
    this.memoryBytes = memoryBytes(parameters);
    this.#address = createCounters(context.kernels, parameters, context.seed);
  }

  begin(epochStartNs: number, _originNs?: bigint, salt = 0n): void {
    this.#startNs = epochStartNs;
    if (salt === this.#salt) return;
    this.#salt = salt;
    const { kernels, seed } = this.#context;
    placeCounters(kernels, this.#address, this.#parameters, saltedSeed(seed, salt));
  }

  update(batch: PacketBatch, from: number, to: number): void {
    this.#context.kernels.call.colateUpdate(this.#address, batch.address, from, to, this.#startNs);
    this.#packets += to - from;
  }

  isFull(): boolean {
    return this.#context.kernels.call.colateMax(this.#address) >>> 0 >= this.#fullAt;
  }

  take({ cells, packets }: KernelKept): void {
    const { kernels } = this.#context;
    foldCells(kernels, kernels.call.colateCells(this.#address) >>> 0, cells);
    this.#packets += packets;
  }

  seal(): SealedEpoch {
    const payload = encodeCounters(this.#read());
    const sealed = { payload, packets: this.#packets };
    this.#context.kernels.call.colateClear(this.#address);
    this.#packets = 0;
    return sealed;
  }

  free(): void {
    this.#context.kernels.call.colateFree(this.#address);
  }

  #read(): Counters {
    const { kernels, seed } = this.#context;
    const { n, b, check } = this.#parameters;
    const counters = emptyCounters(this.#parameters, seed, this.#salt);
    const start = (kernels.call.colateCells(this.#address) >>> 0) >>> 2;
    const words = kernels.u32.subarray(start, start + 4 * n);
    const lowMask = b >= 32 ? 0xffff_ffff : 2 ** b - 1;
    const highMask = b > 32 ? 2 ** (b - 32) - 1 : 0;
    const checkMask = check === 32 ? 0xffff_ffff : 2 ** check - 1;
    for (let c = 0; c < n; c++) {
      const low = (words[4 * c]! & lowMask) >>> 0;
      counters.sum[c] = (words[4 * c + 1]! & highMask) * 0x1_0000_0000 + low;
      counters.count[c] = words[4 * c + 2]!;
      counters.digest[c] = words[4 * c + 3]! & checkMask;
    }
    return counters;
  }
}

export function memoryBytes({ n, m, vectors }: ColateParameters): number {
  return CELL_BYTES * (n + m * vectors.length);
}

/** Returns the description of the same updates for the eBPF program. */
export function kernelPart(parameters: ColateParameters, seed: bigint): KernelPart {
  const { multiplier, edges } = slotsOf(parameters, seed);
  const { n, m, unit } = parameters;
  const [shift, full] = [Math.log2(unit), fullAt(parameters)];
  return { kind: "colate", cells: n, m, multiplier, edges, shift, fullAt: full };
}

export function kernelPlaces(parameters: ColateParameters, seed: bigint, salt: bigint): KernelPlaces {
  return { kind: "colate", slots: slotsOf(parameters, saltedSeed(seed, salt)).slots };
}
