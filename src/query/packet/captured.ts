/**
 * The packets of a capture as columns: capture time, key (digest, or flow and IPID) and size of each. They contain no packet bytes, so they may be
 * sent to whatever host holds the records.
 */
import type { Kernels } from "../../base/kernels.ts";
import { required } from "../../base/lists.ts";
import type { CaptureReader } from "../../capture/reader.ts";
import type { PacketAnswers, PacketIdentity } from "../../estimators/estimator.ts";
import { combineAnswers, emptyAnswers, scatterAnswers } from "../../estimators/packet-answers.ts";
import { flowPacketKey } from "../../estimators/packet-keys.ts";
import type { ClockOffset } from "./clock-offset.ts";
import type { PacketEpochs } from "./epochs.ts";

export interface CapturedPackets {
  count: number;
  /** Origin of the times, ns since 1970. */
  originNs: bigint;
  timeNs: Float64Array;
  /** The keys that the packets are looked up by. */
  keys: BigUint64Array;
  wireBytes: Uint32Array;
}

/** The columns that stay with the capture; they name and group the answers. */
export interface CapturedRows extends CapturedPackets {
  digests: BigUint64Array;
  /** Key words of packet i's flow, masked as observed. */
  wordsAt(i: number): Uint32Array;
}

/** Copies the reader's batch, which is reused for the next one. */
export function capturedRows(
  kernels: Kernels,
  reader: CaptureReader,
  identity: PacketIdentity,
): CapturedRows {
  const { batch } = reader;
  const n = batch.count;
  const u64 = (column: "digest" | "flowHash") =>
    kernels.u64.slice(batch.column(column) >>> 3, (batch.column(column) >>> 3) + n);
  const digests = u64("digest");
  const hashes = identity === "digest" ? null : u64("flowHash");
  const ipids = batch.ipid.slice(0, n);
  const columns = [batch.meta, batch.addrA, batch.addrB, batch.addrC, batch.addrD].map((c) =>
    c.slice(0, 2 * n),
  );
  return {
    count: n,
    originNs: required(reader.originNs, "the capture's first timestamp"),
    timeNs: Float64Array.from(batch.timeNs.subarray(0, n), Math.round),
    keys: hashes ? hashes.map((hash, i) => flowPacketKey(kernels, hash, ipids[i]!)) : digests,
    wireBytes: Uint32Array.from(batch.wireLength.subarray(0, n)),
    digests,
    wordsAt: (i) => Uint32Array.from(columns.flatMap((column) => [column[2 * i]!, column[2 * i + 1]!])),
  };
}

export function slicePackets(packets: CapturedPackets, from: number, to: number): CapturedPackets {
  const { originNs, timeNs, keys, wireBytes, count } = packets;
  const end = Math.min(to, count);
  return {
    count: Math.max(0, end - from),
    originNs,
    timeNs: timeNs.subarray(from, end),
    keys: keys.subarray(from, end),
    wireBytes: wireBytes.subarray(from, end),
  };
}

export function joinPackets(parts: readonly CapturedPackets[]): CapturedPackets {
  const count = parts.reduce((n, p) => n + p.count, 0);
  const all = {
    count,
    originNs: parts[0]?.originNs ?? 0n,
    timeNs: new Float64Array(count),
    keys: new BigUint64Array(count),
    wireBytes: new Uint32Array(count),
  };
  let at = 0;
  for (const part of parts) {
    all.timeNs.set(part.timeNs, at);
    all.keys.set(part.keys, at);
    all.wireBytes.set(part.wireBytes, at);
    at += part.count;
  }
  return all;
}

/** Facts about a lookup, besides its answers. */
export interface CapturedFacts {
  asked: number;
  /** Packets in no epoch. */
  outside: number;
  /** Expected number of answers by chance, had none of the packets passed the point. */
  falsePositives: number;
  offset: ClockOffset | null;
}

/**
 * Looks up each packet in the epoch of its time. Near an edge it asks the neighbouring epoch too, and the epochs whose delays reach back to the
 * packet. Without slack, only the epoch of its time.
 */
export class CapturedLookup {
  readonly #epochs: PacketEpochs;
  readonly #identity: PacketIdentity;
  readonly #slackNs: number;
  readonly #offsetNs: bigint;
  readonly facts: CapturedFacts;

  constructor(
    epochs: PacketEpochs,
    identity: PacketIdentity,
    { slackNs, offset }: { slackNs: bigint; offset: ClockOffset | null },
  ) {
    this.#epochs = epochs;
    this.#identity = identity;
    const middle = offset ? offsetMiddle(offset) : { offsetNs: 0n, slackNs: 0n };
    this.#offsetNs = middle.offsetNs;
    this.#slackNs = Number(slackNs + middle.slackNs);
    this.facts = { asked: 0, outside: 0, falsePositives: 0, offset };
  }

  ask({ count, originNs, timeNs, keys, wireBytes }: CapturedPackets): PacketAnswers {
    const answers = emptyAnswers(count);
    const rowsOf = new Map<number, number[]>();
    // An offset that was found already includes the delay.
    const byDelays = this.#slackNs > 0 && this.facts.offset === null ? rangeOf(timeNs) : null;
    const near = this.#epochs.around(originNs + this.#offsetNs, this.#slackNs, byDelays);
    for (let i = 0; i < count; i++) {
      const epochs = near(timeNs[i]!);
      if (epochs.length === 0) this.facts.outside++;
      for (const epoch of epochs) {
        const rows = rowsOf.get(epoch);
        if (rows) rows.push(i);
        else rowsOf.set(epoch, [i]);
      }
    }
    const unanswered = new Float64Array(count).fill(1);
    for (const [index, rows] of rowsOf)
      this.#epochs.ask(index, ({ lookup }) => {
        for (const i of rows) unanswered[i]! *= 1 - lookup.absentAccepted;
        if (!lookup.has(this.#identity)) return;
        const own = BigUint64Array.from(rows, (i) => keys[i]!);
        const sizes = Uint32Array.from(rows, (i) => wireBytes[i]!);
        combineAnswers(answers, scatterAnswers(lookup.lookup(this.#identity, own, sizes), rows, count));
      });
    for (const chance of unanswered) this.facts.falsePositives += 1 - chance;
    this.facts.asked += count;
    return answers;
  }
}

function rangeOf(timeNs: Float64Array): { firstNs: number; lastNs: number } {
  let [firstNs, lastNs] = [Infinity, -Infinity];
  for (const ns of timeNs) {
    firstNs = Math.min(firstNs, ns);
    lastNs = Math.max(lastNs, ns);
  }
  return { firstNs, lastNs };
}

/** Middle of the clock offset, and how far the true offset may be from it. */
export function offsetMiddle({ lowNs, highNs }: ClockOffset): { offsetNs: bigint; slackNs: bigint } {
  return { offsetNs: (lowNs + highNs) / 2n, slackNs: (highNs - lowNs) / 2n + 1n };
}
