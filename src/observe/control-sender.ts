/**
 * Start and End messages sent by the sender's tap (LDA, section III; ../epoch/control.ts): at every multiple of the length the open epoch of each lane ends and the next begins, so that both ends of a
 * FIFO segment count the same packets whatever their clocks say. The messages cross the observed interface like any packet of this host, which the tap must see as well: on the
 * interface that they leave by. Numbers are those of the interval since 1970, so that they go on after a restart.
 */
import { UsageError } from "../base/errors.ts";
import { PreciseClock } from "../delays/precise-clock.ts";
import { UdpOutlet } from "../delays/udp-outlet.ts";
import { CONTROL_PORT, type ControlMessage, controlStream, encodeControl } from "../epoch/control.ts";

export interface ControlPlan {
  /** An address behind the receiving point. */
  to: string;
  lengthNs: bigint;
}

export class ControlSender {
  readonly #plan: ControlPlan;
  readonly #outlet: UdpOutlet;
  readonly #clock = new PreciseClock();
  readonly #signal: AbortSignal | undefined;
  readonly #onAbort = () => this.#stop();
  #streams: number[] = [];
  #sequence: bigint | null = null;
  #timer: NodeJS.Timeout | null = null;

  private constructor(plan: ControlPlan, outlet: UdpOutlet, signal: AbortSignal | undefined) {
    this.#plan = plan;
    this.#outlet = outlet;
    this.#signal = signal;
  }

  static async open(plan: ControlPlan, signal?: AbortSignal): Promise<ControlSender> {
    return new ControlSender(plan, await UdpOutlet.open(plan.to, CONTROL_PORT), signal);
  }

  /** The first epoch of each label begins. */
  begin(segments: readonly string[]): void {
    this.#streams = segments.map(controlStream);
    this.#signal?.addEventListener("abort", this.#onAbort);
    if (!this.#signal?.aborted) this.#next();
  }

  /** The last one ends, where the signal has not ended it. Messages that this host refused to send are an error: their epochs are void. */
  async end(): Promise<void> {
    this.#signal?.removeEventListener("abort", this.#onAbort);
    this.#stop();
    await this.#outlet.close();
    const [first] = this.#outlet.failed;
    if (first && this.#outlet.sent === 0)
      throw new UsageError(
        "bad-option",
        `${this.#plan.to}: no message could be sent (${first[0]})`,
        "give an address behind the receiving point",
        {
          ...{ parameter: "control-to", value: this.#plan.to },
        },
      );
  }

  #next(): void {
    const { lengthNs } = this.#plan;
    const nowNs = this.#clock.now();
    this.#clock.look();
    const sequence = nowNs / lengthNs;
    // A timer may be early.
    if (this.#sequence === null || sequence > this.#sequence) {
      this.#sendAll("end", this.#sequence);
      this.#sequence = sequence;
      this.#sendAll("start", sequence);
    }
    const leftMs = Number((sequence + 1n) * lengthNs - nowNs) / 1e6;
    this.#timer = setTimeout(() => this.#next(), Math.max(1, Math.ceil(leftMs)));
  }

  #stop(): void {
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
    this.#sendAll("end", this.#sequence);
    this.#sequence = null;
  }

  #sendAll(kind: ControlMessage["kind"], sequence: bigint | null): void {
    if (sequence === null) return;
    for (const stream of this.#streams) {
      const message = { kind, sequence, referenceNs: this.#clock.now(), stream };
      this.#outlet.send(Buffer.from(encodeControl(message)));
    }
  }
}
