/** Epochs whose mean is biased low by packets in flight when they began, and the resulting bias over all packets. */
import type { SegmentAnswer } from "./answer.ts";

export class Leaning {
  #epochs = 0;
  #sumNs = 0;

  add(leansNs: number | undefined, packets: number | null): void {
    if (leansNs === undefined) return;
    this.#epochs++;
    this.#sumNs += leansNs * (packets ?? 0);
  }

  /** `packets`: total of all epochs. */
  answer(packets: number | null): Pick<SegmentAnswer, "leans"> {
    return this.#epochs > 0 && packets ? { leans: { epochs: this.#epochs, ns: this.#sumNs / packets } } : {};
  }
}
