/** Epochs whose mean is rather too low for packets that were in flight when they began, and what that comes to over all packets. */
import type { SegmentAnswer } from "./answer.ts";

export class Leaning {
  #epochs = 0;
  #sumNs = 0;

  add(leansNs: number | undefined, packets: number | null): void {
    if (leansNs === undefined) return;
    this.#epochs++;
    this.#sumNs += leansNs * (packets ?? 0);
  }

  /** `packets`: of all epochs. */
  answer(packets: number | null): Pick<SegmentAnswer, "leans"> {
    return this.#epochs > 0 && packets ? { leans: { epochs: this.#epochs, ns: this.#sumNs / packets } } : {};
  }
}
