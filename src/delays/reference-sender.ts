/**
 * Sends reference packets for real: STAMP packets over UDP, paced by a fixed rate or by the utilisation of an interface (algorithm 1 of RLI applied
 * to the interface's counters: packets sent since the last look, times the injection rate, are due as references). The time in a packet is read
 * just before it is handed to the kernel; what the host adds until the wire is part of the measured delay and is told apart only by a capture at the
 * sender. How long handing over took of late, and what the clock's reading may be off, is what the packets state as their error.
 *
 * References leave at random moments, one in each part of a tick: timers fire at whole milliseconds, and so does much traffic; references in step with it would
 * always find the queue in the same state.
 */
import { createSocket, type Socket } from "node:dgram";
import { readFileSync } from "node:fs";
import { isIPv6 } from "node:net";
import { setImmediate as nextTurn, setTimeout } from "node:timers/promises";
import { UsageError } from "../base/errors.ts";
import { ADAPTIVE_DEFAULTS, AdaptiveRate, type AdaptiveSettings } from "./injection-rate.ts";
import { encodeStamp, STAMP_BYTES, STAMP_PORT } from "./stamp.ts";

export interface ReferenceOptions {
  to: string;
  port?: number;
  /** Fixed pace; without it the interface's utilisation sets the pace. */
  packetsPerSecond?: number | undefined;
  /** Interface whose packets are counted, and the drain rate of its queue. */
  device?: string | undefined;
  drainBps?: number | undefined;
  adaptive?: AdaptiveSettings;
  /** References never rarer than this while the interface is silent. */
  floorPerSecond?: number;
  ceilingPerSecond?: number;
  durationNs: number;
  session?: number;
  /** UDP payload bytes, at least 44. */
  bytes?: number;
  /** Ends sending before the duration; what was sent is told all the same. */
  signal?: AbortSignal | undefined;
  onTick?: (sent: number, utilisation: number | null) => void;
}

export interface ReferenceSummary {
  format: "hoptime.reference/1";
  to: string;
  port: number;
  session: number;
  sent: number;
  seconds: number;
  packetsPerSecond: number;
  utilisation: number | null;
}

const TICK_MS = 2;
const MAX_PER_TICK = 64;
/** WallClock's reading, at most (it comes within some microseconds). */
const CLOCK_ERROR_NS = 5_000;
/** A handover never takes less than this, from the clock's reading to the wire. */
const MIN_HANDOVER_NS = 20_000;

/**
 * The wall clock in ns. Date.now() tells whole milliseconds, so Date.now() minus the monotonic clock is never above the true offset and comes within a microsecond
 * of it at the edge of a millisecond: the largest difference of late is the offset. The window lets it follow a clock that is slewed.
 */
export class WallClock {
  #offsetNs: bigint;
  #nextNs: bigint;
  #windowEnd: bigint;

  constructor() {
    const start = process.hrtime.bigint();
    this.#offsetNs = difference();
    // Past two edges at least.
    while (process.hrtime.bigint() - start < 2_500_000n) {
      const now = difference();
      if (now > this.#offsetNs) this.#offsetNs = now;
    }
    this.#nextNs = this.#offsetNs;
    this.#windowEnd = process.hrtime.bigint() + WINDOW_NS;
  }

  now(): bigint {
    return process.hrtime.bigint() + this.#offsetNs;
  }

  /** One more look; a few hundred within a window keep the offset to some microseconds. */
  look(): void {
    const seen = difference();
    if (seen > this.#offsetNs) this.#offsetNs = seen;
    if (seen > this.#nextNs) this.#nextNs = seen;
    const now = process.hrtime.bigint();
    if (now < this.#windowEnd) return;
    this.#offsetNs = this.#nextNs;
    this.#nextNs = seen;
    this.#windowEnd = now + WINDOW_NS;
  }
}

const WINDOW_NS = 10_000_000_000n;

function difference(): bigint {
  // In this order: a pause in between makes the difference smaller, never larger.
  const wallMs = Date.now();
  return BigInt(wallMs) * 1_000_000n - process.hrtime.bigint();
}

interface Counters {
  packets: number;
  bytes: number;
}

/** What an interface has sent so far (Linux). */
export function readInterface(device: string): Counters {
  const read = (name: string) => Number(readFileSync(`/sys/class/net/${device}/statistics/${name}`, "utf8"));
  try {
    return { packets: read("tx_packets"), bytes: read("tx_bytes") };
  } catch (cause) {
    throw new UsageError(
      "bad-option",
      `the counters of ${device} cannot be read`,
      "ip link lists the interfaces",
      { parameter: "interface", value: device, cause },
    );
  }
}

export async function sendReferences(options: ReferenceOptions): Promise<ReferenceSummary> {
  const port = options.port ?? STAMP_PORT;
  const session = options.session ?? 1;
  const pace = makePace(options);
  const socket = createSocket(isIPv6(options.to) ? "udp6" : "udp4");
  await new Promise<void>((resolve, reject) => {
    socket.once("error", reject);
    // Told of a failed look-up too.
    socket.connect(port, options.to, (error?: Error) => (error ? reject(error) : resolve()));
  }).catch((cause: Error) => {
    socket.close();
    throw new UsageError(
      "bad-option",
      `${options.to}: ${cause.message}`,
      "give an IP address that this host can reach",
      { parameter: "to", value: options.to, cause },
    );
  });
  socket.removeAllListeners("error");
  // Nobody need listen at the far end: an ICMP error is no failure.
  socket.on("error", () => {});
  const clock = new WallClock();
  const errors = new HandoverError();
  const payload = Buffer.alloc(Math.max(STAMP_BYTES, options.bytes ?? STAMP_BYTES));
  const start = process.hrtime.bigint();
  let sent = 0;
  let owed = 0;
  let before = start;
  const send = () => {
    const began = process.hrtime.bigint();
    const stamp = { timeNs: clock.now(), session, synchronised: false, errorNs: errors.largestNs };
    encodeStamp({ sequence: sent++, ...stamp }, payload);
    socket.send(Buffer.from(payload));
    errors.add(Number(process.hrtime.bigint() - began));
  };
  for (;;) {
    clock.look();
    const now = process.hrtime.bigint();
    owed = Math.min(owed + pace.due(Number(now - before)), MAX_PER_TICK);
    before = now;
    const due = Math.floor(owed);
    owed -= due;
    const part = (TICK_MS * 1e6) / due;
    for (let i = 0; i < due; i++) {
      sleepUntil(now + BigInt(Math.floor((i + Math.random()) * part)));
      send();
    }
    options.onTick?.(sent, pace.utilisation());
    if (options.signal?.aborted || Number(now - start) >= options.durationNs) break;
    // Packets go out and signals are heard between ticks.
    await (due > 0 ? nextTurn() : setTimeout(TICK_MS));
  }
  await closed(socket);
  const seconds = Number(process.hrtime.bigint() - start) / 1e9;
  return {
    format: "hoptime.reference/1",
    to: options.to,
    port,
    session,
    sent,
    seconds,
    packetsPerSecond: sent / seconds,
    utilisation: pace.utilisation(),
  };
}

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

/** Packets handed over by `send` are on their way before the socket closes. */
function closed(socket: Socket): Promise<void> {
  return new Promise((resolve) => {
    globalThis.setTimeout(() => socket.close(() => resolve()), 20);
  });
}

interface Pace {
  /** References due for this much time. */
  due(elapsedNs: number): number;
  utilisation(): number | null;
}

function makePace(options: ReferenceOptions): Pace {
  const { packetsPerSecond, device, drainBps } = options;
  if (packetsPerSecond !== undefined) {
    return { due: (ns) => (packetsPerSecond * ns) / 1e9, utilisation: () => null };
  }
  if (device === undefined || drainBps === undefined) {
    throw new UsageError(
      "bad-option",
      "references need a pace",
      "give ‘rate’, or ‘interface’ with the ‘drain’ rate of its queue",
    );
  }
  const floor = options.floorPerSecond ?? 10;
  const ceiling = options.ceilingPerSecond ?? 5000;
  // Counters are looked at every few milliseconds, not per reference: the smoothing is that of as many references.
  const adaptive = new AdaptiveRate(drainBps, {
    ...(options.adaptive ?? ADAPTIVE_DEFAULTS),
    smoothing: 0.05,
  });
  let last = readInterface(device);
  let own = 0;
  return {
    due(elapsedNs) {
      const now = readInterface(device);
      const rate = adaptive.update(now.bytes - last.bytes, elapsedNs);
      // References themselves are among the packets counted.
      const packets = Math.max(0, now.packets - last.packets - own);
      last = now;
      const seconds = elapsedNs / 1e9;
      own = Math.min(ceiling * seconds, Math.max(floor * seconds, packets * rate));
      return own;
    },
    utilisation: () => adaptive.utilisation,
  };
}
