/** RLI's tap. kernels/rli/rli.ts does the work; this file reads the table and seals it. */

import type { Kernels } from "../../base/kernels.ts";
import { entryAt, entryOf } from "../../base/lists.ts";
import type { PacketBatch } from "../../capture/batch.ts";
import { withSource } from "../../delays/reference-source.ts";
import type { SealedEpoch, Tap, TapContext } from "../estimator.ts";
import { KEY_WORDS } from "../flow-keys.ts";
import type { RliParameters } from "./parameters.ts";
import {
  COUNTERS,
  emptyFlows,
  encodeRli,
  fingerprint,
  joinFlows,
  noCounters,
  PACKET_COUNTERS,
  type RliFlows,
} from "./payload.ts";

// Layout of kernels/rli/state.ts, in u32 words: the head with hash and key, then the flow's counters.
const BUFFERED_BYTES = 24;
const RECORD_WORDS = 32;
const HEAD_WORDS = 12;
const LINE = { transmission: 0, arrival: 1, backlog: 2 } as const;
const SELECTION = { all: 0, hold: 1, flows: 2 } as const;

const bits = new DataView(new ArrayBuffer(4));
function float32(word: number): number {
  bits.setUint32(0, word);
  return bits.getFloat32(0);
}

export class RliTap implements Tap {
  readonly #kernels: Kernels;
  readonly #parameters: RliParameters;
  readonly #seed: bigint;
  readonly #address: number;
  #cells = 0;
  #packets = 0;
  #startNs = 0;
  #originNs: bigint | null = null;
  #sealed = true;

  constructor({ kernels, seed }: TapContext, parameters: RliParameters) {
    this.#kernels = kernels;
    this.#parameters = parameters;
    this.#seed = seed;
    const { buffer, estimator, line, drain, port, session, longest } = parameters;
    const { max, select, rate, idle, every, source, authenticated } = parameters;
    const left = estimator === "rli-l" ? 1 : 0;
    const nsPerByte = drain > 0 ? 8e9 / drain : 0;
    kernels.ensure(BUFFERED_BYTES * buffer);
    this.#address = kernels.call.rliNew(buffer, left, LINE[line], nsPerByte, port, session, longest) >>> 0;
    const below = Math.min(0xffff_ffff, Math.floor(rate * 2 ** 32));
    kernels.call.rliSelect(this.#address, max, SELECTION[select], below, idle * 1e9, every);
    withSource(kernels, source, (header) =>
      kernels.call.rliTrust(this.#address, header, authenticated ? 1 : 0),
    );
    this.#clear();
  }

  get memoryBytes(): number {
    const { call } = this.#kernels;
    const count = call.flowsCount(call.rliFlows(this.#address)) >>> 0;
    const expired = call.rliExpiredCount(this.#address) >>> 0;
    const index = 8 * Math.max(4096, 2 ** Math.ceil(Math.log2(2 * count + 2)));
    const cells = this.#cells === 0 ? 0 : 8 * Math.max(8192, (call.cellsUsed(this.#cells) >>> 0) * 2);
    return BUFFERED_BYTES * this.#parameters.buffer + (count + expired) * 4 * RECORD_WORDS + index + cells;
  }

  /** Keeps the references of the previous epoch if the stream continues. */
  begin(epochStartNs: number, originNs: bigint = 0n): void {
    if (this.#sealed && !(originNs === this.#originNs && epochStartNs > this.#startNs)) {
      this.#kernels.call.rliForget(this.#address);
    }
    this.#sealed = false;
    this.#startNs = epochStartNs;
    if (originNs !== this.#originNs) this.#kernels.call.rliOrigin(this.#address, originNs);
    this.#originNs = originNs;
  }

  update(batch: PacketBatch, from: number, to: number): void {
    this.#kernels.call.rliUpdate(this.#address, batch.address, from, to, BigInt.asUintN(64, this.#seed));
    this.#packets += to - from;
  }

  seal(): SealedEpoch {
    const { call } = this.#kernels;
    call.rliFinish(this.#address);
    const counters = noCounters();
    const numbers = (call.rliCounters(this.#address) >>> 0) >>> 2;
    const references = (call.rliReferences(this.#address) >>> 0) >>> 2;
    for (const [i, name] of COUNTERS.entries()) {
      counters[name] =
        this.#kernels.u32[
          i < PACKET_COUNTERS.length ? numbers + i : references + i - PACKET_COUNTERS.length
        ]!;
    }
    const sums = (call.rliSums(this.#address) >>> 0) >>> 3;
    const total = this.#kernels.f64.slice(sums, sums + 13);
    const { estimator, quantiles } = this.#parameters;
    const answered = counters.answered > 0;
    const doubt = total[12]! ** 2;
    const payload = encodeRli({
      leftOnly: estimator === "rli-l",
      quantiles,
      ofAll: true,
      fingerprint: fingerprint(this.#seed, this.#parameters),
      counters,
      total: {
        sum: this.#kernels.i64[sums]!,
        squares: total[1]!,
        // An empty epoch has neither; readers ignore the 0.
        minimum: answered ? total[2]! : 0,
        maximum: answered ? total[3]! : 0,
        errors: total[4]! + doubt,
        misses: total[5]! + doubt / Math.max(1, counters.answered),
        excess: Number(this.#kernels.i64[sums + 10]!),
        idle: Number(this.#kernels.i64[sums + 11]!),
        timestamps: total[6]!,
        busyBytes: total[7]!,
        busyNs: total[8]!,
        drag: total[9]!,
      },
      flows: this.#flows(),
    });
    const sealed = { payload, packets: this.#packets };
    this.#clear();
    return sealed;
  }

  free(): void {
    this.#kernels.call.rliFree(this.#address);
    if (this.#cells !== 0) this.#kernels.call.cellsFree(this.#cells);
  }

  #clear(): void {
    const { call } = this.#kernels;
    if (this.#cells !== 0) call.cellsFree(this.#cells);
    this.#cells = this.#parameters.quantiles ? call.cellsNew() >>> 0 : 0;
    call.rliClear(this.#address, this.#cells);
    this.#packets = 0;
    this.#sealed = true;
  }

  #flows(): RliFlows {
    const { call } = this.#kernels;
    const table = call.rliFlows(this.#address) >>> 0;
    const inTable = call.flowsCount(table) >>> 0;
    const aside = call.rliExpiredCount(this.#address) >>> 0;
    const expired = call.rliExpired(this.#address) >>> 0;
    const { quantiles } = this.#parameters;
    const out = emptyFlows(inTable + aside, quantiles);
    const bySerial = new Map<number, number>();
    for (let i = 0; i < out.count; i++) {
      const start =
        i < inTable ? call.flowsRecord(table, i) >>> 0 : expired + (i - inTable) * 4 * RECORD_WORDS;
      const words = this.#kernels.u32.subarray(start >>> 2, (start >>> 2) + RECORD_WORDS);
      const own = (start + 4 * HEAD_WORDS) >>> 3;
      out.hash.set(words.subarray(0, 2), 2 * i);
      out.keyWords.set(words.subarray(2, HEAD_WORDS), KEY_WORDS * i);
      out.packets[i] = words[HEAD_WORDS]!;
      out.gaps[i] = words[HEAD_WORDS + 3]!;
      out.sum[i] = this.#kernels.i64[own + 3]!;
      out.squares[i] = this.#kernels.f64[own + 4]!;
      // The error of the backlog's share is the same in all packets of a flow.
      const doubt = float32(words[HEAD_WORDS + 5]!) ** 2;
      out.errors[i] = this.#kernels.f64[own + 5]! + doubt;
      out.misses[i] = this.#kernels.f64[own + 7]! + doubt / Math.max(1, words[HEAD_WORDS]!);
      out.excess[i] = Number(this.#kernels.i64[own + 8]!);
      out.idle[i] = Number(this.#kernels.i64[own + 9]!);
      if (quantiles) bySerial.set(words[HEAD_WORDS + 4]!, i);
    }
    if (out.buckets) this.#readCells(out.buckets, bySerial);
    return joinFlows([out]);
  }

  #readCells(buckets: [number, number][][], bySerial: Map<number, number>): void {
    const used = this.#kernels.call.cellsUsed(this.#cells) >>> 0;
    const list = this.#kernels.alloc(12 * Math.max(1, used));
    const n = this.#kernels.call.cellsExport(this.#cells, list) >>> 0;
    const words = this.#kernels.u32.slice(list >>> 2, (list >>> 2) + 3 * n);
    this.#kernels.free(list);
    for (let i = 0; i < n; i++) {
      const of = entryAt(buckets, entryOf(bySerial, words[3 * i]!));
      of.push([words[3 * i + 1]! | 0, words[3 * i + 2]!]);
    }
    for (const [i, of] of buckets.entries()) {
      if (of.length < 2) continue;
      // A bucket that overflowed its cell is listed twice.
      const counts = new Map<number, number>();
      for (const [bucket, count] of of) counts.set(bucket, (counts.get(bucket) ?? 0) + count);
      buckets[i] = [...counts].sort((x, y) => x[0] - y[0]);
    }
  }
}
