/**
 * Adds the receiver's list of flows to the sender's: how many packets of each flow arrived, and the flows that only the receiver has (their packets were in
 * flight at the previous cut). A mean is over packets that arrived: weighting epochs by sent packets would overweight those with the most loss, which are the
 * slow ones.
 */
import type { KnownFlows } from "../estimators/estimator.ts";
import { compareFlows, KEY_WORDS } from "../estimators/flow-keys.ts";

export interface ListedArrivals {
  /** The sender's flows, with `received`. */
  flows: KnownFlows;
  /** Flows of the receiver's list only; null if every flow is in both. */
  receiverOnly: KnownFlows | null;
}

/** Returns null if the lists are not sorted by hash, so that they cannot be compared side by side. */
export function withArrivals(sent: KnownFlows, received: KnownFlows): ListedArrivals | null {
  const arrived = new Float64Array(sent.count).fill(received.complete ? 0 : Number.NaN);
  const only: number[] = [];
  let i = 0;
  for (let j = 0; j < received.count; j++) {
    if (j > 0 && compareFlows(received, j - 1, received, j) >= 0) return null;
    for (; i < sent.count && compareFlows(sent, i, received, j) < 0; i++) if (!follows(sent, i)) return null;
    if (i < sent.count && compareFlows(sent, i, received, j) === 0) arrived[i] = received.packets[j] ?? NaN;
    else only.push(j);
  }
  for (; i < sent.count; i++) if (!follows(sent, i)) return null;
  // If a list left flows out, flows that are not in it may have been sent.
  const receiverOnly = sent.complete && only.length > 0 ? pick(received, only) : null;
  return { flows: { ...sent, received: arrived }, receiverOnly };
}

function follows(flows: KnownFlows, i: number): boolean {
  return i === 0 || compareFlows(flows, i - 1, flows, i) < 0;
}

function pick(flows: KnownFlows, indices: readonly number[]): KnownFlows {
  const out: KnownFlows = {
    count: indices.length,
    hash: new Uint32Array(2 * indices.length),
    packets: new Float64Array(indices.length),
    bytes: new Float64Array(indices.length),
    keyWords: new Uint32Array(KEY_WORDS * indices.length),
    complete: false,
  };
  for (const [to, from] of indices.entries()) {
    out.hash.set(flows.hash.subarray(2 * from, 2 * from + 2), 2 * to);
    out.packets[to] = flows.packets[from] ?? Number.NaN;
    out.bytes[to] = flows.bytes[from] ?? Number.NaN;
    out.keyWords.set(flows.keyWords.subarray(KEY_WORDS * from, KEY_WORDS * (from + 1)), KEY_WORDS * to);
  }
  return out;
}
