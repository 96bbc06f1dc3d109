/**
 * Sends the Start and End messages of the sender's tap (LDA, section III; ../epoch/control.ts). At every multiple of the length, each lane's open
 * epoch ends and the next begins, so both ends of a FIFO segment count the same packets whatever their clocks show. The messages cross the observed
 * interface like any packet of this host, and the tap must capture them too, on the interface they leave by. They are numbered by interval since
 * 1970, so numbering continues after a restart.
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

  /** Starts the first epoch of each label. */
  begin(segments: readonly string[]): void {
    this.#streams = segments.map(controlStream);
    this.#signal?.addEventListener("abort", this.#onAbort);
    if (!this.#signal?.aborted) this.#next();
  }

  /** Ends the last epoch, unless the signal has done so. Throws if this host could not send any message: the epochs are then void. */
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
    // Timers may fire early.
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
