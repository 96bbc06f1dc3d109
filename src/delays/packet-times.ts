/**
 * Delays from timestamps that packets contain (MAPLE, section 2.3): capture switches write the time at which a packet passed them into a trailer or a header of
 * its frame. Used as the time at the sender, it gives every packet's delay from a single capture at the receiver, without reference packets. The clocks are the
 * switch's and the capturing host's.
 */
import { oneOf, UsageError } from "../base/errors.ts";
import type { Kernels } from "../base/kernels.ts";
import type { PacketBatch } from "../capture/batch.ts";

/** Layouts by name, with their number in kernels/maple/packet-times.ts. */
const LAYOUTS = {
  metamako: { number: 1, title: "Metamako or Arista 7130 trailers" },
  exablaze: { number: 2, title: "Exablaze or Cisco Nexus 3550 trailers" },
  arista: { number: 3, title: "Arista headers (EtherType 0xD28B)" },
} as const;
export type PacketTimeLayout = keyof typeof LAYOUTS;
export const PACKET_TIME_LAYOUTS = Object.keys(LAYOUTS) as PacketTimeLayout[];

export interface PacketTimesOptions {
  layout: PacketTimeLayout;
  /** A timestamp further from the packet's arrival is invalid (default 10 s). */
  windowNs?: number;
}

export interface PacketTimeCounts {
  /** Packets with a timestamp in them. */
  timed: number;
  untimed: number;
  /** Packets with a timestamp further from their arrival than the window: another clock, or not a timestamp. */
  apart: number;
}

const WINDOW_NS = 10e9;

export class PacketTimes {
  readonly #kernels: Kernels;
  readonly #layout: number;
  readonly #windowNs: number;
  readonly #counts: number;

  constructor(kernels: Kernels, { layout, windowNs = WINDOW_NS }: PacketTimesOptions) {
    const known = LAYOUTS[layout];
    if (!known) {
      const expected = oneOf(PACKET_TIME_LAYOUTS);
      throw new UsageError("bad-option", `there are no timestamps '${layout}'`, `expected ${expected}`);
    }
    this.#kernels = kernels;
    this.#layout = known.number;
    this.#windowNs = windowNs;
    this.#counts = kernels.alloc(12);
    kernels.u32.fill(0, this.#counts >>> 2, (this.#counts >>> 2) + 3);
  }

  /** Fills the delays of a batch. */
  fill(batch: PacketBatch, originNs: bigint): void {
    const { call } = this.#kernels;
    call.packetTimesFill(batch.address, this.#layout, originNs, this.#windowNs, this.#counts);
  }

  counts(): PacketTimeCounts {
    const at = this.#counts >>> 2;
    const [timed = 0, untimed = 0, apart = 0] = this.#kernels.u32.subarray(at, at + 3);
    return { timed, untimed, apart };
  }

  free(): void {
    this.#kernels.free(this.#counts);
  }
}

/** Detects the timestamp layout of a capture's packets from its batches. */
export class PacketTimesWatch {
  readonly #seen = new Map<PacketTimeLayout, number>();
  #packets = 0;

  /** Counts timestamps within a day of the arrival: clocks may be hours apart, and random bytes pass for a timestamp once in 50,000 packets. */
  observe(batch: PacketBatch, originNs: bigint): void {
    this.#packets += batch.count;
    for (const [name, { number }] of Object.entries(LAYOUTS) as [PacketTimeLayout, { number: number }][]) {
      const seen = batch.kernels.call.packetTimesSeen(batch.address, number, originNs, DAY_NS) >>> 0;
      if (seen > 0) this.#seen.set(name, (this.#seen.get(name) ?? 0) + seen);
    }
  }

  /** Returns the most frequent layout, if more than one packet in ten has it. */
  report(): { layout: PacketTimeLayout; title: string; packets: number } | null {
    let best: { layout: PacketTimeLayout; title: string; packets: number } | null = null;
    for (const [layout, packets] of this.#seen) {
      if (packets > 0.1 * this.#packets && packets > (best?.packets ?? 0))
        best = { layout, title: LAYOUTS[layout].title, packets };
    }
    return best;
  }
}

const DAY_NS = 86_400e9;
