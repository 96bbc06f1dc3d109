/** Epochs between in-band Start and End messages (control.ts). */
import { later } from "../base/time.ts";
import type { PacketBatch } from "../capture/batch.ts";
import { controlOfRow } from "./control.ts";
import type { Cutter, EpochSink } from "./epoch-sink.ts";
import { instant } from "./instant.ts";
import type { EpochBounds } from "./record.ts";

/** An epoch whose End is not seen within this time is void: the link is idle, or the message was lost. */
const MAX_CONTROL_AGE_NS = 3_600_000_000_000n;

export class ControlCutter implements Cutter {
  readonly #stream: number;
  readonly #port: number;
  /** `seenNs`: time at which its Start was seen here, whatever the sender's clock says. */
  #open: { sequence: bigint; referenceNs: bigint; seenNs: bigint } | null = null;
  /** Sequence number of an epoch that was given up: if its End still comes, it is ignored. */
  #expired: bigint | null = null;

  constructor(stream: number, port: number) {
    this.#stream = stream;
    this.#port = port;
  }

  cut(batch: PacketBatch, originNs: bigint, sink: EpochSink): void {
    const { count } = batch;
    let from = 0;
    for (let i = 0; i < count; i++) {
      const message = controlOfRow(batch, i, this.#port);
      if (message === null) continue;
      // The messages themselves do not count as traffic, and those of other segments do not cut this one.
      if (this.#open && i > from) sink.rows(from, i);
      from = i + 1;
      if (message.stream !== this.#stream) continue;
      const open = this.#open;
      const { sequence, referenceNs } = message;
      if (message.kind === "start") {
        if (open) this.#discard(open.sequence, open.referenceNs, `End ${open.sequence} was not seen`, sink);
        this.#open = { sequence, referenceNs, seenNs: instant(originNs, batch.timeNs[i] ?? 0) };
        this.#expired = null;
        sink.open({ startNs: referenceNs, referenceNs, salt: referenceNs });
      } else if (open?.sequence === sequence) {
        sink.close(bounds(sequence, open.referenceNs, referenceNs));
        this.#open = null;
      } else if (sequence === this.#expired) this.#expired = null;
      else {
        if (open) this.#discard(open.sequence, open.referenceNs, `End ${open.sequence} was not seen`, sink);
        this.#discard(sequence, referenceNs, `Start ${sequence} was not seen`, sink);
      }
    }
    if (this.#open && count > from) sink.rows(from, count);
  }

  tick(nowNs: bigint, sink: EpochSink): void {
    if (!this.#open || nowNs - this.#open.seenNs < MAX_CONTROL_AGE_NS) return;
    const { sequence, referenceNs } = this.#open;
    this.#discard(sequence, referenceNs, `End ${sequence} was not seen within an hour`, sink);
    this.#expired = sequence;
  }

  finish(sink: EpochSink): void {
    if (!this.#open) return;
    const { sequence, referenceNs } = this.#open;
    this.#discard(sequence, referenceNs, `observation ended before End ${sequence}`, sink);
  }

  #discard(sequence: bigint, referenceNs: bigint, reason: string, sink: EpochSink): void {
    sink.discard(bounds(sequence, referenceNs, referenceNs), reason);
    this.#open = null;
  }
}

function bounds(sequence: bigint, startNs: bigint, endNs: bigint): EpochBounds {
  const ids = { startId: sequence, endId: sequence };
  return {
    mode: "control",
    startNs,
    // The sender's clock may have been set back between its messages.
    endNs: later(startNs, endNs),
    referenceNs: startNs,
    ...ids,
    cutHead: false,
    cutTail: false,
  };
}
