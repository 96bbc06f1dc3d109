/** Reads the state of the system's clock as the kernel keeps it for time synchronisation (adjtimex), and which program disciplines it. */
import { readdirSync, readFileSync } from "node:fs";
import { hashBytes64 } from "../../../base/hash.ts";
import type { ClockState } from "../clock-state.ts";
import type { Libc } from "./libc.ts";

/** Size and offsets of struct timex on 64-bit Linux. */
const TIMEX_BYTES = 208;
const MAXIMUM_ERROR = 24;
const ESTIMATED_ERROR = 32;
const STATUS = 40;
const UNSYNCHRONISED = 0x40;
const FAILED = -1;
const NS_PER_US = 1000;

const BOOT = "/proc/sys/kernel/random/boot_id";
/** Names as the kernel truncates them. */
const PROGRAMS: Readonly<Record<string, "ntp" | "ptp">> = {
  phc2sys: "ptp",
  ptp4l: "ptp",
  chronyd: "ntp",
  ntpd: "ntp",
  ntpsec: "ntp",
  "systemd-timesyn": "ntp",
};
const LOOK_AGAIN_MS = 300_000;

export class SystemClock {
  readonly #libc: Pick<Libc, "adjtimex">;
  readonly #id: bigint;
  #discipline: "ntp" | "ptp" | null = null;
  #lookedAt = Number.NEGATIVE_INFINITY;

  constructor(libc: Pick<Libc, "adjtimex">) {
    this.#libc = libc;
    this.#id = bootId();
  }

  /** Returns null if the kernel does not say. */
  state(): ClockState | null {
    const bytes = new Uint8Array(TIMEX_BYTES);
    if (this.#libc.adjtimex(bytes) === FAILED) return null;
    const view = new DataView(bytes.buffer);
    const errorNs = (at: number) => Math.max(0, Number(view.getBigInt64(at, true))) * NS_PER_US;
    const synchronised = (view.getInt32(STATUS, true) & UNSYNCHRONISED) === 0;
    return {
      id: this.#id,
      synchronised,
      discipline: synchronised ? this.#program() : null,
      estimatedErrorNs: errorNs(ESTIMATED_ERROR),
      maximumErrorNs: errorNs(MAXIMUM_ERROR),
    };
  }

  #program(): "ntp" | "ptp" | null {
    if (performance.now() - this.#lookedAt < LOOK_AGAIN_MS) return this.#discipline;
    this.#lookedAt = performance.now();
    const found = new Set<string>();
    for (const pid of readdirSync("/proc")) {
      if (!/^\d+$/.test(pid)) continue;
      try {
        found.add(PROGRAMS[readFileSync(`/proc/${pid}/comm`, "utf8").trim()] ?? "");
      } catch {
        // The process has ended in the meantime.
      }
    }
    this.#discipline = found.has("ptp") ? "ptp" : found.has("ntp") ? "ntp" : null;
    return this.#discipline;
  }
}

/** Returns an id of this boot of this machine: containers and namespaces share the kernel's clock. */
function bootId(): bigint {
  try {
    const [high, low] = hashBytes64(readFileSync(BOOT), 0, 0);
    return (BigInt(high) << 32n) | BigInt(low);
  } catch {
    return 0n;
  }
}
