/**
 * Cross traffic that shares a stage with the scenario's own traffic. The kernel takes rows of both in order of arrival, and stops when it needs more of the
 * other.
 */
import type { Kernels } from "../base/kernels.ts";
import { PacketBatch } from "../capture/batch.ts";
import type { StageContext } from "./stage.ts";

export class CrossFeed {
  readonly #kernels: Kernels;
  readonly #cross: StageContext["cross"];
  readonly #batch: PacketBatch | null;
  /** Address of the index of the next row of the cross traffic's batch. */
  readonly #position: number;
  #ended: 0 | 1;

  constructor({ kernels, cross }: StageContext) {
    this.#kernels = kernels;
    this.#cross = cross;
    this.#batch = cross ? new PacketBatch(kernels) : null;
    if (this.#batch) this.#batch.count = 0;
    this.#position = kernels.alloc(8);
    kernels.u32[this.#position >>> 2] = 0;
    this.#ended = cross ? 0 : 1;
  }

  /**
   * Processes all rows of a batch. `take` gets the cross traffic's batch (0: none), the address of its row index and whether the cross traffic has ended; it
   * returns the row at which it stopped.
   */
  async run(
    batch: PacketBatch,
    take: (row: number, crossBatch: number, position: number, ended: 0 | 1) => number,
  ): Promise<void> {
    for (let row = 0; ; ) {
      row = take(row, this.#batch?.address ?? 0, this.#position, this.#ended);
      if (row >= batch.count || !this.#cross || !this.#batch) return;
      await this.#cross.source.fill(this.#batch);
      this.#kernels.u32[this.#position >>> 2] = 0;
      if (this.#batch.count === 0) this.#ended = 1;
    }
  }

  free(): void {
    this.#batch?.free();
    this.#cross?.source.free();
    this.#kernels.free(this.#position);
  }
}
