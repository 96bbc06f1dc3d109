/**
 * Writes simulated packets to a nanosecond pcap file. Frames are complete on the wire and cut to the snap length in the file.
 *
 * The batch's wire length is the IP length here. Not supported: VLAN tags; IPv6 fragments are written as whole packets.
 */
import { closeSync, openSync, writeSync } from "node:fs";
import { UsageError } from "../base/errors.ts";
import type { Kernels } from "../base/kernels.ts";
import type { PacketBatch } from "../capture/batch.ts";
import { SIMULATED_FLAG } from "./scenario.ts";

const MAGIC_NANO = 0xa1b23c4d;
const LINK = { raw: 101, ethernet: 1 } as const;
const BUFFER_BYTES = 1 << 20;

export interface PcapOptions {
  /** "raw": IP packets without a link header (default); "ethernet": 14 more bytes per packet. */
  link?: keyof typeof LINK;
  snapLength?: number;
  /** Time 0 of the simulation, in ns since 1970. */
  originNs?: bigint;
}

/** 2024-01-01T00:00:00Z. A fixed origin: the same scenario always gives the same bytes. */
const DEFAULT_ORIGIN_NS = 1_704_067_200_000_000_000n;
const DEFAULT_SNAP_LENGTH = 128;

/** Kinds of the measurement's own packets among the traffic. */
export type OwnKind = "reference" | "probe";
/** Returns the payload of the packet of this kind and number; `sentNs` is its send time by the sender's clock. */
export type OwnPayload = (sequence: number, sentNs: bigint, kind: OwnKind) => Uint8Array;

/**
 * Payloads of the measurement's own packets. Each is made when the packet is first seen (in the sender's capture, by the sender's clock) and is the same at
 * every other point.
 */
export class OwnPayloads {
  readonly #encode: OwnPayload;
  readonly #known = new Map<bigint, { sequence: number; sentNs: bigint }>();
  readonly #sent = { reference: 0, probe: 0 };

  constructor(encode: OwnPayload) {
    this.#encode = encode;
  }

  of(digest: bigint, timeNs: bigint, kind: OwnKind): Uint8Array {
    let timestamp = this.#known.get(digest);
    if (!timestamp) {
      timestamp = { sequence: this.#sent[kind]++, sentNs: timeNs };
      this.#known.set(digest, timestamp);
    }
    return this.#encode(timestamp.sequence, timestamp.sentNs, kind);
  }
}

export class PcapWriter {
  readonly path: string;
  packets = 0;
  readonly #kernels: Kernels;
  readonly #fd: number;
  readonly #options: Required<PcapOptions>;
  readonly #buffer: number;
  /** Frame settings in kernel memory. */
  readonly #frames: number;
  readonly #payloads: OwnPayloads | null;

  /** `seed` is the simulation's seed, which is needed to read packet numbers back from the digests. */
  constructor(
    kernels: Kernels,
    path: string,
    seed: number,
    options: PcapOptions = {},
    payloads: OwnPayloads | null = null,
  ) {
    this.#kernels = kernels;
    this.#payloads = payloads;
    this.path = path;
    this.#options = {
      link: options.link ?? "raw",
      snapLength: options.snapLength ?? DEFAULT_SNAP_LENGTH,
      originNs: options.originNs ?? DEFAULT_ORIGIN_NS,
    };
    const { snapLength } = this.#options;
    if (!Number.isInteger(snapLength) || snapLength < 64 || snapLength > 65_535)
      throw new UsageError("bad-parameter", "the snap length must be a whole number from 64 to 65535");
    try {
      this.#fd = openSync(path, "w");
    } catch (cause) {
      throw new UsageError(
        "not-writable",
        `${path}: cannot be written (${(cause as Error).message})`,
        undefined,
        {
          cause,
        },
      );
    }
    const header = new DataView(new ArrayBuffer(24));
    header.setUint32(0, MAGIC_NANO, true);
    header.setUint16(4, 2, true);
    header.setUint16(6, 4, true);
    header.setUint32(16, snapLength, true);
    header.setUint32(20, LINK[this.#options.link], true);
    writeSync(this.#fd, new Uint8Array(header.buffer));
    this.#buffer = kernels.alloc(BUFFER_BYTES);
    const { originNs, link } = this.#options;
    this.#frames =
      kernels.call.simFramesNew(originNs, BigInt(seed), snapLength, link === "ethernet" ? 1 : 0) >>> 0;
  }

  /** Appends the packets of a batch with the batch's timestamps. Its keys must not be masked. */
  write(batch: PacketBatch): void {
    const kernels = this.#kernels;
    this.packets += batch.count;
    for (let row = 0; row < batch.count; ) {
      const first = row;
      const { address } = batch;
      row = kernels.call.simFrames(this.#frames, address, row, this.#buffer, this.#buffer + BUFFER_BYTES);
      if (this.#payloads) this.#timestamp(this.#payloads, batch, first, row);
      let at = this.#buffer;
      const end = at + kernels.call.simFramesUsed(this.#frames);
      while (at < end) at += writeSync(this.#fd, kernels.u8, at, end - at);
    }
  }

  /** Fills in the payload of the own packets among the frames just made. They are UDP over IPv4, where the checksum is optional; it is set to 0. */
  #timestamp(payloads: OwnPayloads, batch: PacketBatch, from: number, to: number): void {
    const { link, originNs } = this.#options;
    const { u8 } = this.#kernels;
    const view = new DataView(u8.buffer, u8.byteOffset);
    const { digest, flags, timeNs } = batch;
    for (let i = from, at = this.#buffer, next = 0; i < to; i++, at = next) {
      next = at + 16 + view.getUint32(at + 8, true);
      const reference = (flags[i]! & SIMULATED_FLAG.reference) !== 0;
      if (!reference && (flags[i]! & SIMULATED_FLAG.probe) === 0) continue;
      const name = (BigInt(digest[2 * i + 1]!) << 32n) | BigInt(digest[2 * i]!);
      const sentNs = originNs + BigInt(Math.trunc(timeNs[i]!));
      const payload = payloads.of(name, sentNs, reference ? "reference" : "probe");
      const ip = at + 16 + (link === "ethernet" ? 14 : 0);
      const room = view.getUint16(ip + 2) - 28;
      view.setUint16(ip + 26, 0);
      u8.set(payload.subarray(0, Math.max(0, room)), ip + 28);
    }
  }

  close(): void {
    closeSync(this.#fd);
    this.#kernels.free(this.#buffer);
    this.#kernels.free(this.#frames);
  }
}
