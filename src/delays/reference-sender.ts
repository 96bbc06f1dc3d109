/**
 * Sends real reference packets: STAMP packets over UDP, at a fixed pace or that of an interface (reference-pace.ts). The timestamp in a packet is read just
 * before it is handed to the kernel; the delay that the host adds before the wire is part of the measurement, unless a capture at the sender separates it. The
 * packets state their error as the recent handover time plus the error of the clock reading.
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
  /** Stops sending before the duration; what was sent is still reported. */
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
  /** Packets that the host refused to send, by system error code (ENETUNREACH, ENOBUFS …). */
  failed: Record<string, number>;
  seconds: number;
  packetsPerSecond: number;
  /** The requested rate; null if an interface sets the pace. */
  askedPerSecond: number | null;
  utilisation: number | null;
}

const TICK_MS = 2;
const MAX_PER_TICK = 64;
/** Maximum number of late references sent at once after a stall: a burst of references says no more about the queue than one. */
const MAX_LATE = 4;
/** Maximum error of PreciseClock's reading (it is within some microseconds). */
const CLOCK_ERROR_NS = 5_000;
/** Minimum time of a handover, from the clock reading to the wire. */
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
    // Packets are sent and signals handled between ticks.
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

const resting = new Int32Array(new SharedArrayBuffer(4));

/** Timers have a resolution of milliseconds; nothing else runs here during the part of a tick that this waits. */
function sleepUntil(timeNs: bigint): void {
  const leftNs = Number(timeNs - process.hrtime.bigint());
  if (leftNs > 0) Atomics.wait(resting, 0, 0, leftNs / 1e6);
}

/** Error of the times in packets: the longest of the last few dozen handovers, plus that of a clock reading. */
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
