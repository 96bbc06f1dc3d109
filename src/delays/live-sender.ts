/**
 * Two points of one host, captured live with one clock: the exact delay of every packet at the second point, as it arrives. The sender's packets are recorded
 * as they pass to the sender's own observer; a batch of the receiver waits until the sender's stream has advanced as far, and then gets its delays by exact
 * match of digests (kernels/match/delays.ts). With one clock a packet is at the sender first: a negative difference means the other direction.
 *
 * Memory: the sender's packets of a window, 32 bytes each, at most MAX_NOTED; the receiver's packets wait in its own ring.
 */
import { checkNs } from "../base/checks.ts";
import type { Kernels } from "../base/kernels.ts";
import { later } from "../base/time.ts";
import type { PacketBatch } from "../capture/batch.ts";
import { checkIsSource, checkMemory, derivedSource, type Source } from "../capture/source/source.ts";
import type { DelaySource } from "./delay-source.ts";
import type { DelayCounts } from "./sender-delays.ts";

export interface LiveDelayCounts extends Omit<DelayCounts, "longestNs"> {
  /** Sent, but not found at the receiver within the window; the packets of the last window are not judged. */
  lost: number;
  windowNs: number;
}

export interface LivePair {
  /** The sender's source, to be observed like any other; it drives the receiver's delays, so it must be read. */
  sender: Source;
  /** For the observer of the receiver. */
  delays: DelaySource;
}

export interface LivePairOptions {
  sender: Source;
  receiver: Source;
  /** Longest delay searched for. */
  windowNs: number;
}

/** Polling interval while no packet of the sender shows that time has passed. */
const LOOK_MS = 10;
const MAX_NOTED = 1 << 23;
const LOST = 3;
const NOTED = 4;

export function matchLive(kernels: Kernels, options: LivePairOptions): LivePair {
  checkIsSource("sender", options.sender);
  checkIsSource("receiver", options.receiver);
  checkNs("window", options.windowNs);
  const match = new LiveMatch(kernels, options);
  return {
    sender: noting(options.sender, match),
    delays: {
      async *push(batch, originNs) {
        await match.fill(batch, originNs);
        yield { batch, originNs };
      },
      tick: () => [],
      finish: () => [],
      waitingSinceNs: () => null,
      counts: () => ({ from: "live", ...match.counts() }),
      free: () => match.free(),
    },
  };
}

class LiveMatch {
  readonly #kernels: Kernels;
  readonly #options: LivePairOptions;
  #address: number;
  #axisNs: bigint | null = null;
  /** Latest time of the sender, and of the receiver. */
  #sentNs: bigint | null = null;
  #receivedNs: bigint | null = null;
  #ended = false;
  #wake: () => void = () => {};
  #final: LiveDelayCounts | null = null;

  constructor(kernels: Kernels, options: LivePairOptions) {
    this.#kernels = kernels;
    this.#options = options;
    this.#address = kernels.call.delaysNew(options.windowNs, 0) >>> 0;
  }

  sent(batch: PacketBatch, originNs: bigint): void {
    if (this.#final) return;
    checkMemory("sender", batch, this.#kernels);
    const { call } = this.#kernels;
    const shift = this.#shift(originNs);
    // Packets sent before observation of the receiver began are not lost.
    const beganNs = this.#options.receiver.beganNs?.() ?? null;
    const from = beganNs === null ? 0 : batch.rowsUntil(0, Number(beganNs - originNs) - 1, 0);
    call.delaysSent(this.#address, batch.address, from, Number.POSITIVE_INFINITY, shift);
    this.#sentNs = latestOf(batch, originNs, this.#sentNs);
    this.#expire();
    this.#wake();
  }

  end(): void {
    this.#ended = true;
    this.#wake();
  }

  async fill(batch: PacketBatch, originNs: bigint): Promise<void> {
    if (batch.count === 0 || this.#final) return;
    checkMemory("receiver", batch, this.#kernels);
    const latestNs = latestOf(batch, originNs, null);
    await this.#senderAt(latestNs);
    // Ended meanwhile: its memory is freed.
    if (this.#final) return;
    this.#kernels.call.delaysFill(this.#address, batch.address, this.#shift(originNs));
    this.#receivedNs = later(this.#receivedNs ?? latestNs, latestNs);
  }

  counts(): LiveDelayCounts {
    if (this.#final) return this.#final;
    const count = (what: number) => this.#kernels.call.delaysCount(this.#address, what) >>> 0;
    return {
      matched: count(0),
      unmatched: count(1),
      reversed: count(2),
      lost: count(LOST),
      windowNs: this.#options.windowNs,
    };
  }

  free(): void {
    if (this.#final) return;
    this.#final = this.counts();
    this.#kernels.call.delaysFree(this.#address);
    this.#address = 0;
    this.end();
  }

  /** Resolves when every packet that the sender saw up to this time is recorded. */
  async #senderAt(timeNs: bigint): Promise<void> {
    for (;;) {
      const passedNs = this.#options.sender.nowNs();
      if (this.#ended || (this.#sentNs ?? -1n) >= timeNs || (passedNs !== null && passedNs >= timeNs)) return;
      let timer: NodeJS.Timeout | undefined;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
        timer = setTimeout(resolve, LOOK_MS);
      });
      clearTimeout(timer);
    }
  }

  /** Time also passes at a receiver that sees nothing. */
  #expire(): void {
    const { call } = this.#kernels;
    const { receiver, windowNs } = this.#options;
    const passedNs = later(receiver.nowNs() ?? 0n, this.#receivedNs ?? 0n);
    if (this.#axisNs === null) return;
    call.delaysExpire(this.#address, Number(passedNs - this.#axisNs) - windowNs);
    // Beyond the memory limit the older half is dropped, whatever the receiver sees later.
    if (call.delaysCount(this.#address, NOTED) >>> 0 > MAX_NOTED)
      call.delaysExpire(this.#address, Number((this.#sentNs ?? 0n) - this.#axisNs) - windowNs / 2);
  }

  #shift(originNs: bigint): number {
    this.#axisNs ??= originNs;
    return Number(originNs - this.#axisNs);
  }
}

function latestOf({ timeNs, count }: PacketBatch, originNs: bigint, beforeNs: bigint | null): bigint {
  const latest = originNs + BigInt(Math.floor(timeNs[count - 1] ?? 0));
  return beforeNs === null ? latest : later(latest, beforeNs);
}

/** The same source, with its batches recorded first. */
function noting(source: Source, match: LiveMatch): Source {
  return derivedSource(source, {
    async next() {
      const got = await source.next();
      if (got) match.sent(got.batch, got.originNs);
      else match.end();
      return got;
    },
    close() {
      match.end();
      source.close();
    },
  });
}
