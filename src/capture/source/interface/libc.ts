/**
 * The system calls that live capture uses, through koffi. Koffi is loaded only when an interface is opened, so that reading files needs no native code. It is
 * an optional package; `loadLibc` says how to install it if it is missing.
 */
import { UsageError } from "../../../base/errors.ts";

/** Address of mapped memory, as koffi returns it. */
export type Mapping = unknown;

export interface Libc {
  socket(domain: number, type: number, protocol: number): number;
  setsockopt(fd: number, level: number, name: number, value: Uint8Array, bytes: number): number;
  getsockopt(fd: number, level: number, name: number, value: Uint8Array, bytes: number[]): number;
  bind(fd: number, address: Uint8Array, bytes: number): number;
  close(fd: number): number;
  mmap(
    at: null,
    bytes: number,
    protection: number,
    flags: number,
    fd: number,
    offset: number,
  ): Mapping | null;
  /** Maps over existing memory. */
  mapOver(at: bigint, bytes: number, protection: number, flags: number, fd: number): boolean;
  munmap(at: Mapping, bytes: number): number;
  /** Returns the address of memory outside the JavaScript heap; it does not change while the buffer lives. */
  addressOf(bytes: Uint8Array): bigint;
  /** Returns the number of an interface; 0 if there is none of that name. */
  indexOf(name: string): number;
  /** Returns whether an interface with this number exists, even under another name. */
  hasIndex(index: number): boolean;
  /** Queries an interface: returns the 24 bytes of the answer, or null if there is no such interface. */
  ask(fd: number, request: number, name: string): Uint8Array | null;
  /** Applies a setting that is passed by its address. */
  demand(fd: number, request: number, name: string, data: Uint8Array): number;
  /** Attaches a socket filter of this many instructions. */
  attachFilter(fd: number, program: Uint8Array): number;
  adjtimex(state: Uint8Array): number;
  /** Reads a clock by its number (clock_gettime). */
  clockNs(clock: number): bigint;
  /** Returns the mapped bytes; they must not be touched after munmap. */
  view(at: Mapping, bytes: number): ArrayBuffer;
  errno(): number;
}

const SOL_SOCKET = 1;
const SO_ATTACH_FILTER = 26;
/** IF_NAMESIZE. */
const INTERFACE_NAME_BYTES = 16;
const INSTRUCTION_BYTES = 8;
const MAP_FAILED = 0xffff_ffff_ffff_ffffn;

let loaded: Promise<Libc | null> | null = null;

/** Returns null if koffi is not installed, or has no build for this machine. */
export function findLibc(): Promise<Libc | null> {
  loaded ??= load().catch(() => null);
  return loaded;
}

export async function loadLibc(what: string): Promise<Libc> {
  const libc = process.platform === "linux" ? await findLibc() : null;
  if (libc) return libc;
  if (process.platform !== "linux")
    throw new UsageError(
      "not-supported",
      `${what}: interfaces are observed on Linux only (this is ${process.platform})`,
      "pipe a capture in: tcpdump -i NAME -s 96 -w - | hoptime observe -",
    );
  throw new UsageError(
    "not-supported",
    `${what}: the package koffi, which opens interfaces, is not installed`,
    "npm install -g koffi, or install tcpdump",
  );
}

async function load(): Promise<Libc> {
  const { default: koffi } = await import("koffi");
  const c = koffi.load(null);
  koffi.struct("hoptime_fprog", { count: "uint16", program: "void *" });
  koffi.struct("hoptime_ifreq", {
    name: koffi.array("char", 16),
    data: "void *",
    rest: koffi.array("uint8", 16),
  });
  const call = (declaration: string) => c.func(declaration) as unknown as (...args: unknown[]) => never;
  const mmap = call("void *mmap(void *, size_t, int, int, int, int64)");
  const mapOver = call("void *mmap(uintptr_t, size_t, int, int, int, int64)");
  const copyNothing = call("void *memcpy(void *, const void *, size_t)");
  const attach = call("int setsockopt(int, int, int, hoptime_fprog *, uint32)");
  const ask = call("int ioctl(int, ulong, _Inout_ uint8 *)") as (...args: unknown[]) => number;
  const readClock = call("int clock_gettime(int, void *)");
  const nameOfIndex = call("void *if_indextoname(uint32, _Out_ uint8 *)");
  const demand = call("int ioctl(int, ulong, hoptime_ifreq *)");
  return {
    socket: call("int socket(int, int, int)"),
    setsockopt: call("int setsockopt(int, int, int, void *, uint32)"),
    getsockopt: call("int getsockopt(int, int, int, _Inout_ uint8 *, _Inout_ uint32 *)"),
    bind: call("int bind(int, void *, uint32)"),
    close: call("int close(int)"),
    mmap(...args) {
      const at: Mapping = mmap(...args);
      return at === null || koffi.address(at as never) === MAP_FAILED ? null : at;
    },
    mapOver: (at, ...args) => koffi.address(mapOver(at, ...args, 0)) !== MAP_FAILED,
    addressOf: (bytes) => koffi.address(copyNothing(bytes, bytes, 0)),
    munmap: call("int munmap(void *, size_t)"),
    indexOf: call("uint32 if_nametoindex(const char *)"),
    hasIndex: (index) => nameOfIndex(index, new Uint8Array(INTERFACE_NAME_BYTES)) !== null,
    ask(fd, request, name) {
      const bytes = new Uint8Array(40);
      bytes.set(new TextEncoder().encode(name).subarray(0, 15));
      return ask(fd, request, bytes) === 0 ? bytes.subarray(16) : null;
    },
    demand: (fd, request, name, data) => demand(fd, request, { name, data, rest: new Array(16).fill(0) }),
    attachFilter: (fd, program) =>
      attach(fd, SOL_SOCKET, SO_ATTACH_FILTER, { count: program.length / INSTRUCTION_BYTES, program }, 16),
    adjtimex: call("int adjtimex(_Inout_ uint8 *)"),
    clockNs(clock) {
      const time = new BigInt64Array(2);
      readClock(clock, time);
      return (time[0] ?? 0n) * 1_000_000_000n + (time[1] ?? 0n);
    },
    view: (at, bytes) => koffi.view(at as never, bytes),
    errno: () => koffi.errno(),
  };
}
