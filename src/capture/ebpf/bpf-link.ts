/**
 * Attaches programs. Each attachment is a file descriptor (a link, or a socket), which the kernel closes with the process: a killed process leaves nothing
 * attached. An XDP program that is already attached is never replaced.
 */
import { UsageError } from "../../base/errors.ts";
import { type Libbpf, NEEDED_RIGHTS } from "./libbpf.ts";

/**
 * Where a program sees packets. xdp and tc-ingress: on receipt, before or after the kernel allocates a packet buffer. tc-egress: on sending, before the queue.
 * socket: both directions, where captures see them.
 */
export const PLACES = ["xdp", "tc-ingress", "tc-egress", "socket"] as const;
export type Place = (typeof PLACES)[number];
export type XdpMode = "native" | "generic" | "hardware";

const ATTACH_TYPE = { xdp: 37, "tc-ingress": 46, "tc-egress": 47 } as const;
const XDP_GENERIC = 2;
const XDP_NATIVE = 4;
/** BPF_F_BEFORE: without another program named, before all of them. */
const TC_BEFORE = 8;
const AF_PACKET = 17;
const SOCK_RAW = 3;
const SOCK_CLOEXEC = 0x8_0000;
const SOL_SOCKET = 1;
const SO_ATTACH_BPF = 50;
const ALL_PROTOCOLS = 0x0300; // ETH_P_ALL, network order
const MAX_PROGRAMS = 64;
const EPERM = 1;
const EACCES = 13;
const EBUSY = 16;
const ENODEV = 19;
const EINVAL = 22;
const E2BIG = 7;
const ERANGE = 34;
const EOPNOTSUPP = 95;

export interface Attached {
  place: Place;
  /** XDP only: native (in the driver) or generic (on packet buffers already allocated). */
  mode: XdpMode | null;
  /** False if the interface is gone, and the program with it. */
  alive(): boolean;
  close(): void;
}

export function interfaceIndex(bpf: Libbpf, name: string): number {
  const index = bpf.libc.indexOf(name);
  if (index === 0)
    throw new UsageError("no-such-file", `${name}: no such interface`, "ip -br link lists them", {
      value: name,
    });
  return index;
}

/** `program`: file descriptor of a program of the right kind. `first`: attach before all other tc programs, so that none of them can hide packets from it. */
export function attach(
  bpf: Libbpf,
  name: string,
  place: Place,
  program: number,
  { first = false }: { first?: boolean } = {},
): Attached {
  const index = interfaceIndex(bpf, name);
  if (place === "socket") return attachSocket(bpf, name, index, program);
  if (place === "xdp") return attachXdp(bpf, name, index, program);
  const fd = createLink(bpf, program, index, ATTACH_TYPE[place], first ? TC_BEFORE : 0);
  if (fd < 0) throw attachError(name, place, -fd);
  return { place, mode: null, alive: () => isLinked(bpf, fd), close: () => void bpf.libc.close(fd) };
}

/** Layout of struct bpf_link_info: type, id, program, then the interface index, which is 0 once the interface is gone. */
function isLinked(bpf: Libbpf, fd: number): boolean {
  const info = new Uint8Array(64);
  if (bpf.info(fd, info, new Uint32Array([info.length])) !== 0) return false;
  return new DataView(info.buffer).getUint32(16, true) !== 0;
}

/** Attaches to a kernel tracepoint (tp_btf) that the program's own type names. */
export function attachTracepoint(bpf: Libbpf, what: string, program: number): { close(): void } {
  const fd = bpf.openTracepoint(null, program);
  if (fd < 0)
    throw new UsageError(
      "not-supported",
      `${what}: attaching a program to a tracepoint failed: errno ${-fd}`,
      NEEDED_RIGHTS,
    );
  return { close: () => void bpf.libc.close(fd) };
}

/** Attaches in the driver if it supports that, otherwise in generic mode. */
function attachXdp(bpf: Libbpf, name: string, index: number, program: number): Attached {
  let fd = createLink(bpf, program, index, ATTACH_TYPE.xdp, XDP_NATIVE);
  let native = -fd;
  if ([EOPNOTSUPP, EINVAL, ERANGE, E2BIG].includes(native))
    fd = createLink(bpf, program, index, ATTACH_TYPE.xdp, XDP_GENERIC);
  else native = 0;
  if (fd < 0) throw attachError(name, "xdp", -fd);
  const mode = native > 0 ? "generic" : "native";
  return { place: "xdp", mode, alive: () => isLinked(bpf, fd), close: () => void bpf.libc.close(fd) };
}

/**
 * Attaches where captures see packets: received ones before all other programs, sent ones after the queue. The program keeps no packet, so nothing is copied.
 */
function attachSocket(bpf: Libbpf, name: string, index: number, program: number): Attached {
  const { libc } = bpf;
  // Protocol 0: the socket receives nothing before the program is attached.
  const fd = libc.socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
  if (fd < 0) throw attachError(name, "socket", libc.errno());
  const value = new Uint8Array(new Int32Array([program]).buffer);
  const address = new Uint8Array(20);
  const view = new DataView(address.buffer);
  view.setUint16(0, AF_PACKET, true);
  view.setUint16(2, ALL_PROTOCOLS, true);
  view.setInt32(4, index, true);
  if (
    libc.setsockopt(fd, SOL_SOCKET, SO_ATTACH_BPF, value, 4) !== 0 ||
    libc.bind(fd, address, address.length) !== 0
  ) {
    const errno = libc.errno();
    libc.close(fd);
    throw attachError(name, "socket", errno);
  }
  const alive = () => libc.hasIndex(index);
  return { place: "socket", mode: null, alive, close: () => void libc.close(fd) };
}

/** Layout of struct bpf_link_create_opts: its own size u64, flags u32. */
function createLink(bpf: Libbpf, program: number, index: number, type: number, flags: number): number {
  const options = new Uint8Array(64);
  const view = new DataView(options.buffer);
  view.setBigUint64(0, 16n, true);
  view.setUint32(8, flags, true);
  return bpf.createLink(program, index, type, options);
}

export interface XdpState {
  mode: XdpMode | null;
  programId: number;
}

/**
 * Returns what XDP programs an interface has. Layout of struct bpf_xdp_query_opts: its own size u64, then ids u32 (any, driver, hardware, generic) and the mode
 * u8.
 */
export function xdpState(bpf: Libbpf, name: string): XdpState {
  const options = new Uint8Array(64);
  const view = new DataView(options.buffer);
  view.setBigUint64(0, 32n, true);
  const outcome = bpf.queryXdp(interfaceIndex(bpf, name), 0, options);
  if (outcome !== 0) throw new Error(`${name}: asking for its XDP program: errno ${-outcome}`);
  const id = (at: number) => view.getUint32(at, true);
  const mode = id(12) > 0 ? "native" : id(16) > 0 ? "hardware" : id(20) > 0 ? "generic" : null;
  return { mode, programId: id(8) || id(12) || id(16) || id(20) };
}

/** Returns the ids of the programs attached at a place of an interface. */
export function programsAt(bpf: Libbpf, name: string, place: Exclude<Place, "socket">): number[] {
  if (place === "xdp") {
    const { programId } = xdpState(bpf, name);
    return programId === 0 ? [] : [programId];
  }
  const ids = new Uint32Array(MAX_PROGRAMS);
  const count = new Uint32Array([MAX_PROGRAMS]);
  const index = interfaceIndex(bpf, name);
  const outcome = bpf.queryPrograms(index, ATTACH_TYPE[place], 0, new Uint32Array(1), ids, count);
  if (outcome !== 0) throw new Error(`${name}: asking for its programs: errno ${-outcome}`);
  return [...ids.subarray(0, count[0])];
}

function attachError(name: string, place: Place, errno: number): UsageError {
  const [problem, hint] = problemOf(place, errno);
  return new UsageError("not-supported", `${name}: ${problem}`, hint, { value: name });
}

function problemOf(place: Place, errno: number): [problem: string, hint: string] {
  switch (errno) {
    case EPERM:
    case EACCES:
      return [`no permission to attach a program (${place})`, NEEDED_RIGHTS];
    case EBUSY:
      return [
        "another XDP program is attached, and stays",
        "use ‘at tc-ingress’, or ‘at socket’; ip -d link shows it",
      ];
    case ENODEV:
      return ["the interface is gone", "ip -br link lists those that are there"];
    case EINVAL:
    case EOPNOTSUPP:
      return place === "xdp"
        ? ["XDP cannot be used on this interface", "use ‘at tc-ingress’, or ‘at socket’"]
        : [
            `${place} takes Linux 6.6 or newer (tcx links, which end with the process)`,
            "use ‘at xdp’, or ‘at socket’",
          ];
    default:
      return [`attaching a program (${place}) failed: errno ${errno}`, "use ‘at socket’"];
  }
}
