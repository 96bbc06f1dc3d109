/**
 * Sends reference packets for real: STAMP packets over UDP, at a pace of their own or of an interface (reference-pace.ts). The time in a packet is read
 * just before it is handed to the kernel; what the host adds until the wire is part of the measured delay and is distinguished only by a capture at the
 * sender. How long handing over took of late, and what the clock's reading may be off, is what the packets state as their error.
 *
 * References leave at random moments, one in each part of a tick: timers fire at whole milliseconds, and so does much traffic; references in step with it would
 * always find the queue in the same state.
 */
import { setImmediate as nextTurn, setTimeout } from "node:timers/promises";
import { PreciseClock } from "./precise-clock.ts";
import { makePace, type PaceOptions } from "./reference-pace.ts";
import {
  AUTHENTICATED_STAMP_BYTES,
  encodeAuthenticatedStamp,
  encodeStamp,
  STAMP_BYTES,
  STAMP_PORT,
} from "./stamp.ts";
import { UdpOutlet } from "./udp-outlet.ts";

export interface ReferenceOptions extends PaceOptions {
  to: string;
  port?: number;
  durationNs: number;
  session?: number;
  /** UDP payload bytes: at least 44, or 112 with a key. */
  bytes?: number;
  /** Authenticated mode of RFC 8762. */
  key?: Uint8Array | undefined;
  /** Ends sending before the duration; what was sent is reported all the same. */
  signal?: AbortSignal | undefined;
  onTick?: (sent: number, utilisation: number | null) => void;
}

export interface ReferenceSummary {
  format: "hoptime.reference/1";
  to: string;
  port: number;
  session: number;
  authenticated: boolean;
  /** Packets that left this host. */
  sent: number;
  /** Packets that it refused to send, by the system's code (ENETUNREACH, ENOBUFS …). */
  failed: Record<string, number>;
  seconds: number;
  packetsPerSecond: number;
  /** The rate that was asked for; null where an interface set the pace. */
  askedPerSecond: number | null;
  utilisation: number | null;
}

const TICK_MS = 2;
const MAX_PER_TICK = 64;
/** What a host that was held up does not make up for: references at once say of the queue what one of them says. */
const MAX_LATE = 4;
/** PreciseClock's reading, at most (it comes within some microseconds). */
const CLOCK_ERROR_NS = 5_000;
/** A handover never takes less than this, from the clock's reading to the wire. */
const MIN_HANDOVER_NS = 20_000;

export async function sendReferences(options: ReferenceOptions): Promise<ReferenceSummary> {
  const { to, port = STAMP_PORT, session = 1, key } = options;
  const pace = makePace(options);
  const outlet = await UdpOutlet.open(to, port);
  const clock = new PreciseClock();
  const errors = new HandoverError();
  const minBytes = key ? AUTHENTICATED_STAMP_BYTES : STAMP_BYTES;
  const payload = Buffer.alloc(Math.max(minBytes, options.bytes ?? 0));
  const start = process.hrtime.bigint();
  let sequence = 0;
  const send = () => {
    const began = process.hrtime.bigint();
    const packet = { sequence: sequence++, session, synchronised: false, errorNs: errors.largestNs };
    const timeNs = clock.now();
    if (key) encodeAuthenticatedStamp({ ...packet, timeNs }, key, payload);
    else encodeStamp({ ...packet, timeNs }, payload);
    outlet.send(Buffer.from(payload));
    errors.add(Number(process.hrtime.bigint() - began));
  };
  let owed = 0;
  for (let before = start; ; ) {
    clock.look();
    const now = process.hrtime.bigint();
    const elapsedNs = Number(now - before);
    const due = pace.due(elapsedNs);
    const ofTicks = elapsedNs > 0 ? (2 * TICK_MS * 1e6 * due) / elapsedNs : 0;
    owed = Math.min(owed + due, Math.max(MAX_LATE, ofTicks), MAX_PER_TICK);
    before = now;
    const count = Math.floor(owed);
    owed -= count;
    const part = (TICK_MS * 1e6) / count;
    for (let i = 0; i < count; i++) {
      sleepUntil(now + BigInt(Math.floor((i + Math.random()) * part)));
      send();
    }
    options.onTick?.(outlet.sent, pace.utilisation());
    if (options.signal?.aborted || Number(now - start) >= options.durationNs) break;
    // Packets go out and signals are heard between ticks.
    await (count > 0 ? nextTurn() : setTimeout(TICK_MS));
  }
  const seconds = Number(process.hrtime.bigint() - start) / 1e9;
  await outlet.close();
  return {
    format: "hoptime.reference/1",
    ...{ to, port, session, authenticated: key !== undefined },
    ...{ sent: outlet.sent, failed: Object.fromEntries(outlet.failed), seconds },
    packetsPerSecond: outlet.sent / seconds,
    askedPerSecond: options.packetsPerSecond ?? null,
    utilisation: pace.utilisation(),
  };
}

/**
 * A socket that is not connected: an ICMP error of the far end (nobody need listen there) would make a connected one refuse the next packet. The address is looked up once, so that
 * packets are handed over at once.
 */
const resting = new Int32Array(new SharedArrayBuffer(4));

/** Timers tell whole milliseconds only; nothing else goes on here for the part of a tick that this waits. */
function sleepUntil(timeNs: bigint): void {
  const leftNs = Number(timeNs - process.hrtime.bigint());
  if (leftNs > 0) Atomics.wait(resting, 0, 0, leftNs / 1e6);
}

/** What the times in packets may be off: the longest handover of the last few dozen, and a reading of the clock. */
class HandoverError {
  readonly #lastNs: number[] = [];

  get largestNs(): number {
    return CLOCK_ERROR_NS + Math.max(MIN_HANDOVER_NS, ...this.#lastNs);
  }

  add(tookNs: number): void {
    this.#lastNs.push(tookNs);
    if (this.#lastNs.length > 32) this.#lastNs.shift();
  }
}
