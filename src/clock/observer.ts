/** What the clock diagnosis keeps of the matched packets of two captures: an envelope per direction, and counts.
 *
 * All differences are time at AFTER minus time at BEFORE, in ns. With `offset` = AFTER's clock minus
 * BEFORE's:
 *   forward packets (BEFORE to AFTER):  difference =  delay + offset, so offset <= every forward difference;
 *   reverse packets (AFTER to BEFORE):  difference = -delay + offset, so offset >= every reverse difference.
 * Memory is constant (envelope.ts). The caller knows the direction from addresses or interfaces; feeding
 * reverse packets as forward ones shows up as negative delays.
 */
import { Envelope } from "./envelope.ts";

export class ClockObserver {
  readonly forward = new Envelope();
  /** Holds negated differences: a lower envelope too. */
  readonly reverse = new Envelope();

  /** Forward matched packets: their times at BEFORE and their differences. Only the first n are read. */
  observe(sendNs: Float64Array, diffNs: Float64Array, n: number): void {
    this.forward.observe(sendNs, diffNs, n, 1);
  }

  /** Reverse matched packets: times at BEFORE and differences (after minus before) here too. */
  observeReverse(beforeNs: Float64Array, diffNs: Float64Array, n: number): void {
    this.reverse.observe(beforeNs, diffNs, n, -1);
  }
}
