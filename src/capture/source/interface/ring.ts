/**
 * A packet ring of Linux (AF_PACKET, TPACKET_V3): the kernel writes the packets of an interface into blocks of shared memory. It hands a block over when the
 * block is full, or RETIRE_MS after its first packet, and gets it back after reading. Nothing here waits: if no block is ready, the caller polls again later.
 * Packets that do not fit into the ring are counted by the kernel as dropped. Needs CAP_NET_RAW.
 *
 *   block:  8 status u32 (bit 0: handed over)   12 packets u32   16 offset of the first u32   20 bytes in use u32
 */
import { constants } from "node:os";
import { UsageError } from "../../../base/errors.ts";
import type { Kernels } from "../../../base/kernels.ts";
import type { Libc, Mapping } from "./libc.ts";
import { RingWindow } from "./ring-window.ts";

export interface RingOptions {
  /** Name of the interface. */
  name: string;
  direction: "in" | "out" | "both";
  promiscuous: boolean;
  /** Use the network card's timestamps instead of the kernel's. */
  hardware: boolean;
  /** Socket filter; its return value is the snap length. */
  program: Uint8Array;
  ringBytes: number;
}

export interface RingCounts {
  /** Packets that the filter let through; `dropped`: those of them that found no room. */
  packets: number;
  dropped: number;
}

/** Small enough to stay in the cache while it is copied and decoded. */
export const BLOCK_BYTES = 1 << 18;
/** On a quiet link, a longer time gives fewer and fuller blocks. */
export const RETIRE_MS = 50;
const MIN_BLOCKS = 8;

const AF_PACKET = 17;
const SOCK_RAW = 3;
const SOCK_CLOEXEC = 0o2000000;
const SOL_PACKET = 263;
const PACKET_ADD_MEMBERSHIP = 1;
const PACKET_RX_RING = 5;
const PACKET_STATISTICS = 6;
const PACKET_VERSION = 10;
const PACKET_TIMESTAMP = 17;
const PACKET_IGNORE_OUTGOING = 23;
const TPACKET_V3 = 2;
const RAW_HARDWARE = 1 << 6;
const SIOCGIFFLAGS = 0x8913;
const SIOCGIFMTU = 0x8921;
const SIOCGIFHWADDR = 0x8927;
const SIOCSHWTSTAMP = 0x89b0;
/** ARPHRD numbers of links whose frames begin with an Ethernet header: Ethernet and loopback. */
const ETHERNET_LIKE = [1, 772];
const IFF_UP = 1;
const FILTER_ALL = 1;
const ETH_P_ALL = 3;
const MR_PROMISC = 1;
const PROT_READ_WRITE = 3;
const MAP_SHARED = 1;

const STATUS = 8;
const PACKETS = 12;
const FIRST = 16;
const LENGTH = 20;
const HEAD_BYTES = 48;

export interface Block {
  bytes: Uint8Array;
  /** Offset of the block in the ring. */
  offset: number;
  packets: number;
  /** Offset of the first packet in the block. */
  first: number;
}

export class PacketRing {
  readonly #libc: Libc;
  readonly #fd: number;
  readonly #mapping: Mapping;
  readonly #blocks: number;
  #index: number;
  #words: Int32Array<ArrayBuffer>;
  #bytes: Uint8Array<ArrayBuffer>;
  #at = 0;
  #open = true;
  #counts: RingCounts = { packets: 0, dropped: 0 };

  private constructor(libc: Libc, fd: number, index: number, mapping: Mapping, blocks: number) {
    this.#libc = libc;
    this.#fd = fd;
    this.#index = index;
    this.#mapping = mapping;
    this.#blocks = blocks;
    const memory = libc.view(mapping, blocks * BLOCK_BYTES);
    this.#words = new Int32Array(memory);
    this.#bytes = new Uint8Array(memory);
  }

  static open(libc: Libc, options: RingOptions): PacketRing {
    const index = libc.indexOf(options.name);
    if (index === 0)
      throw new UsageError("no-such-file", `${options.name}: no such interface`, "ip -br link lists them");
    // Protocol 0: nothing is captured before the ring is set up and its filter attached.
    const fd = libc.socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
    if (fd < 0) throw refused(options.name, libc.errno());
    try {
      const ring = prepare(libc, fd, options, index);
      listen(libc, fd, options, index);
      return ring;
    } catch (error) {
      libc.close(fd);
      throw error;
    }
  }

  /** For `prepare` only. */
  static over(libc: Libc, fd: number, index: number, mapping: Mapping, blocks: number): PacketRing {
    return new PacketRing(libc, fd, index, mapping, blocks);
  }

  /** Maps the ring into the kernels' memory; null if that is impossible. The caller closes it. */
  window(kernels: Kernels): RingWindow | null {
    return RingWindow.open(this.#libc, kernels, this.#fd, this.#blocks * BLOCK_BYTES);
  }

  /** Returns the next block that was handed over, until it is given back; null if there is none yet. */
  peek(): Block | null {
    if (!this.#open) return null;
    const start = this.#at * BLOCK_BYTES;
    const word = start >>> 2;
    if ((Atomics.load(this.#words, word + (STATUS >>> 2)) & 1) === 0) return null;
    const length = Math.min(this.#words[word + (LENGTH >>> 2)] ?? 0, BLOCK_BYTES);
    return {
      bytes: this.#bytes.subarray(start, start + length),
      offset: start,
      packets: this.#words[word + (PACKETS >>> 2)] ?? 0,
      first: Math.max(HEAD_BYTES, this.#words[word + (FIRST >>> 2)] ?? 0),
    };
  }

  /** Number of packets in the block that the kernel is still writing. */
  get waiting(): number {
    if (!this.#open) return 0;
    return Atomics.load(this.#words, ((this.#at * BLOCK_BYTES) >>> 2) + (PACKETS >>> 2));
  }

  /** Gives the block back to the kernel. */
  giveBack(): void {
    const word = (this.#at * BLOCK_BYTES) >>> 2;
    Atomics.store(this.#words, word + (STATUS >>> 2), 0);
    this.#at = (this.#at + 1) % this.#blocks;
  }

  /** Whether the interface was removed. A renamed interface still exists. */
  get isOrphan(): boolean {
    return !this.#libc.hasIndex(this.#index);
  }

  /** Continues with an interface that was removed and created again, which the kernel treats as a new one. Returns false if it does not exist. */
  adopt(options: RingOptions): boolean {
    const index = this.#libc.indexOf(options.name);
    if (!this.#open || index === 0) return false;
    ask(this.#libc, this.#fd, options, index);
    listen(this.#libc, this.#fd, options, index);
    this.#index = index;
    return true;
  }

  /** Returns how frames of the interface begin, their maximum length, and whether it is up; null for what it does not say. */
  link(name: string): LinkKind {
    return linkOf(this.#libc, this.#fd, name);
  }

  /** Returns the counts since the ring was opened. */
  counts(): RingCounts {
    if (!this.#open) return this.#counts;
    const statistics = new Uint8Array(12);
    if (
      this.#libc.getsockopt(this.#fd, SOL_PACKET, PACKET_STATISTICS, statistics, [statistics.length]) === 0
    ) {
      // Reading the kernel's counters resets them.
      const [packets = 0, dropped = 0] = new Uint32Array(statistics.buffer);
      this.#counts = {
        packets: this.#counts.packets + packets,
        dropped: this.#counts.dropped + dropped,
      };
    }
    return this.#counts;
  }

  close(): void {
    if (!this.#open) return;
    this.counts();
    this.#open = false;
    // Memory must not be touched after it is unmapped.
    this.#words = new Int32Array(0);
    this.#bytes = new Uint8Array(0);
    this.#libc.munmap(this.#mapping, this.#blocks * BLOCK_BYTES);
    this.#libc.close(this.#fd);
  }
}

function prepare(libc: Libc, fd: number, options: RingOptions, index: number): PacketRing {
  const { name } = options;
  set(libc, fd, PACKET_VERSION, int(TPACKET_V3), () => `${name}: this kernel has no TPACKET_V3 ring`);
  if (options.direction === "in") libc.setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, int(1), 4);
  if (libc.attachFilter(fd, options.program) !== 0)
    throw new Error(`${name}: the kernel refused the socket filter (error ${libc.errno()})`);
  ask(libc, fd, options, index);
  let blocks = Math.max(MIN_BLOCKS, Math.floor(options.ringBytes / BLOCK_BYTES));
  // A machine short of memory gets a smaller ring.
  for (; libc.setsockopt(fd, SOL_PACKET, PACKET_RX_RING, ringRequest(blocks), 28) !== 0; blocks >>>= 1) {
    if (blocks <= MIN_BLOCKS)
      throw new UsageError(
        "out-of-memory",
        `${name}: no memory for a ring of ${blocks} blocks (error ${libc.errno()})`,
      );
  }
  const mapping = libc.mmap(null, blocks * BLOCK_BYTES, PROT_READ_WRITE, MAP_SHARED, fd, 0);
  if (mapping === null)
    throw new UsageError("out-of-memory", `${name}: the ring cannot be mapped (error ${libc.errno()})`);
  return PacketRing.over(libc, fd, index, mapping, blocks);
}

function ringRequest(blocks: number): Uint8Array {
  const request = Buffer.alloc(28);
  const frameBytes = 2048;
  const fields = [BLOCK_BYTES, blocks, frameBytes, (blocks * BLOCK_BYTES) / frameBytes, RETIRE_MS];
  for (const [i, n] of fields.entries()) request.writeUInt32LE(n, 4 * i);
  return request;
}

/** Applies the settings of the card: hardware timestamps, promiscuous mode. */
function ask(libc: Libc, fd: number, { name, hardware, promiscuous }: RingOptions, index: number): void {
  if (hardware) stampInHardware(libc, fd, name);
  if (!promiscuous) return;
  const member = Buffer.alloc(16);
  member.writeInt32LE(index, 0);
  member.writeUInt16LE(MR_PROMISC, 4);
  set(libc, fd, PACKET_ADD_MEMBERSHIP, member, () => `${name}: cannot be made promiscuous`);
}

function listen(libc: Libc, fd: number, { name }: RingOptions, index: number): void {
  const address = Buffer.alloc(20);
  address.writeUInt16LE(AF_PACKET, 0);
  address.writeUInt16BE(ETH_P_ALL, 2);
  address.writeInt32LE(index, 4);
  // Binding to an interface that is down works: packets come once it is up.
  if (libc.bind(fd, address, address.length) !== 0)
    throw new Error(`${name}: cannot be bound to (error ${libc.errno()})`);
}

/** Makes the card timestamp every packet that it receives. */
function stampInHardware(libc: Libc, fd: number, name: string): void {
  const request = Buffer.alloc(12);
  request.writeInt32LE(FILTER_ALL, 8);
  if (libc.demand(fd, SIOCSHWTSTAMP, name, request) !== 0)
    throw new UsageError(
      "not-supported",
      `${name}: the card does not timestamp received packets (error ${libc.errno()})`,
      `ethtool -T ${name} shows what it can; it also takes CAP_NET_ADMIN`,
      { parameter: "timestamps", value: "hardware" },
    );
  set(libc, fd, PACKET_TIMESTAMP, int(RAW_HARDWARE), () => `${name}: no hardware timestamps`);
}

function set(libc: Libc, fd: number, option: number, value: Uint8Array, what: () => string): void {
  if (libc.setsockopt(fd, SOL_PACKET, option, value, value.length) !== 0)
    throw new UsageError("not-supported", `${what()} (error ${libc.errno()})`);
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
}

function int(value: number): Uint8Array {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32LE(value);
  return bytes;
}

function refused(name: string, errno: number): UsageError {
  const { EPERM, EACCES } = constants.errno;
  if (errno !== EPERM && errno !== EACCES)
    return new UsageError("not-supported", `${name}: no packet socket here (error ${errno})`);
  return new UsageError(
    "not-supported",
    `${name}: not permitted: capturing takes the right CAP_NET_RAW`,
    `run as root, or once: sudo setcap cap_net_raw+ep ${process.execPath}`,
  );
}

export interface LinkKind {
  ethernet: boolean;
  mtu: number | null;
  up: boolean | null;
}

/** Returns the link's properties. `fd`: any socket. */
export function linkOf(libc: Libc, fd: number, name: string): LinkKind {
  const kind = libc.ask(fd, SIOCGIFHWADDR, name);
  const mtu = libc.ask(fd, SIOCGIFMTU, name);
  const flags = libc.ask(fd, SIOCGIFFLAGS, name);
  return {
    ethernet: kind === null || ETHERNET_LIKE.includes(viewOf(kind).getUint16(0, true)),
    mtu: mtu === null ? null : viewOf(mtu).getInt32(0, true),
    up: flags === null ? null : (viewOf(flags).getUint16(0, true) & IFF_UP) !== 0,
  };
}
