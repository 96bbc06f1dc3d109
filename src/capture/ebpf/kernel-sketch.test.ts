/** Compares the programs of datapath/ with the WASM kernels: same digests, flow hashes, filters and cells for every kind of frame. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { hostileFrame, type LinkFrame, validFrame } from "../../../tests/support/arbitrary-frames.ts";
import { datapathMissing } from "../../../tests/support/datapath.ts";
import { KernelOracle, type OracleRow } from "../../../tests/support/kernel-oracle.ts";
import * as p from "../../../tests/support/packets.ts";
import { filesUnder, sharedTraces } from "../../../tests/support/shared-traces.ts";
import type { Tap } from "../../estimators/estimator.ts";
import { findAmong, parseParameters } from "../../estimators/parameters.ts";
import { ESTIMATORS } from "../../estimators/table.ts";
import { parseFilter } from "../filter/filter.ts";
import { FlowKeySpec } from "../flow/flow-key.ts";
import type { Place } from "./bpf-link.ts";
import { Datapath } from "./datapath.ts";
import { kernelFilter } from "./kernel-filter.ts";
import type { KernelPart } from "./kernel-plan.ts";
import { KernelSketch } from "./kernel-sketch.ts";
import { loadLibbpf } from "./libbpf.ts";
import { testRun } from "./test-run.ts";
import { parseTimeNamespace, wallOffsetNs } from "./wall-offset.ts";

const missing = await datapathMissing("observe");
if (missing) console.warn(`skipped: eBPF programs against the WASM kernels (${missing})`);

const SEED = 0x1234_5678_9abc_def0n;
const SALT = 1_700_000_000_000_000_000n;
const EPOCH_NS = 3_600_000_000_000n;
const DIRECTIONS = 3 << 26;
const PROGRAM = {
  xdp: "observe_xdp",
  "tc-ingress": "observe_ingress",
  "tc-egress": "observe_egress",
  socket: "observe_socket",
} as const;
/** BPF_PROG_TEST_RUN passes a socket program the bytes behind the Ethernet header. */
const asReceived = (place: Place, frame: Uint8Array) =>
  place === "socket" ? Buffer.concat([new Uint8Array(14), frame]) : frame;
/** Longest frame of which BPF_PROG_TEST_RUN makes a packet buffer. */
const LONGEST = 3000;

interface Scene {
  place: Place;
  cover: number;
  key: string;
  filter: string;
  estimators: Record<string, string>;
}

interface Kept {
  part: KernelPart;
  own: Tap;
  oracle: Tap;
  name: string;
}

/** Runs frames through both sides and compares them row by row, then compares what the taps seal. */
async function compare(scene: Scene, frames: readonly Uint8Array[]): Promise<Record<string, number>> {
  const { place, cover, key, filter } = scene;
  const oracle = new KernelOracle(cover, key, SEED, filter);
  const kept: Kept[] = Object.entries(scene.estimators).map(([name, text]) => {
    const estimator = findAmong(ESTIMATORS, name);
    const parameters = parseParameters(estimator, text);
    const part = estimator.kernel?.part(parameters, SEED);
    if (part === undefined || typeof part === "string") throw new Error(`${name}: ${part}`);
    const context = { kernels: oracle.kernels, role: "sender" as const, seed: SEED };
    const [own, other] = [estimator.createTap(context, parameters), estimator.createTap(context, parameters)];
    return { part, own, oracle: other, name };
  });
  const sketch = await KernelSketch.load({
    ...{ name: "lo", place, cover, seed: SEED, direction: "in", sets: 2, below: null, keepLast: true },
    mask: FlowKeySpec.parse(key).maskWords(),
    filter: filter === "" ? null : kernelFilter(parseFilter(filter)),
    parts: kept.map(({ part }) => part),
  });
  const startNs = BigInt(Date.now()) * 1_000_000n - 1_000_000n;
  try {
    for (const { own, oracle: other, name } of kept) {
      for (const tap of [own, other]) tap.begin(0, startNs, SALT);
      const estimator = findAmong(ESTIMATORS, name);
      const places = estimator.kernel?.places?.(
        parseParameters(estimator, scene.estimators[name]),
        SEED,
        SALT,
      );
      if (places) sketch.place(1, places);
    }
    sketch.setWindow(1, { startNs, endNs: startNs + EPOCH_NS, baseNs: startNs });
    const last = new DataView(sketch.datapath.map("last").memory());
    const wide = (at: number) => last.getBigUint64(at, true);
    const offsetNs = new BigUint64Array(sketch.datapath.map(".data.control").memory())[3] ?? 0n;
    const { bpf } = sketch.datapath;
    const program = sketch.datapath.program(PROGRAM[place]);
    const seen: Record<string, number> = {};
    for (const frame of frames) {
      testRun(bpf, program, asReceived(place, frame));
      const timeNs = Number(wide(72) + offsetNs - startNs);
      const row = oracle.feed(
        frame,
        timeNs,
        kept.map((k) => k.oracle),
      );
      const got = readLast(last, row);
      const { maskedMeta: _, ...wanted } = row;
      expect(got, Buffer.from(frame).toString("hex")).toEqual(
        row.reason === 0
          ? {
              ...wanted,
              meta: row.passed ? row.maskedMeta : row.meta,
              addresses: got.addresses,
              flowHash: row.passed ? row.flowHash : 0n,
              flags: row.flags & ~DIRECTIONS,
            }
          : { reason: row.reason },
      );
      const kind = row.reason === 0 ? (row.passed ? "row" : "filtered") : `reason ${row.reason}`;
      seen[kind] = (seen[kind] ?? 0) + 1;
    }
    const counts = sketch.counts(1);
    expect(counts.frames).toBe(frames.length);
    expect(counts.packets).toBe(seen["row"] ?? 0);
    expect(counts.filtered).toBe(seen["filtered"] ?? 0);
    for (const { part, own, oracle: other, name } of kept) {
      own.take?.(sketch.kept(1, part));
      expect(own.seal(), name).toEqual(other.seal());
    }
    sketch.clear(1);
    expect(sketch.counts(1).frames).toBe(0);
    for (const { part, own, oracle: other } of kept) {
      own.take?.(sketch.kept(1, part));
      expect(own.seal()).toEqual(other.seal());
    }
    return seen;
  } finally {
    sketch.close();
  }
}

function readLast(last: DataView, row: OracleRow): Record<string, unknown> {
  const wide = (at: number) => last.getBigUint64(at, true);
  const reason = last.getUint32(80, true);
  if (reason !== 0 || row.reason !== 0) return { reason };
  const passed = last.getUint32(84, true) !== 0;
  return {
    ...{ reason, digest: wide(0), meta: wide(8), passed },
    addresses: row.addresses.map((_, i) => wide(16 + 8 * i)),
    flags: last.getUint32(48, true) & ~DIRECTIONS,
    ipid: last.getUint32(56, true),
    flowHash: wide(64),
  };
}

const ALL = { lda: "", lds: "", colate: "", flows: "" };
const SCENES: Scene[] = [
  { place: "xdp", cover: 64, key: "5tuple", filter: "", estimators: ALL },
  { place: "tc-ingress", cover: 64, key: "5tuple,vlan,dscp", filter: "", estimators: ALL },
  {
    place: "xdp",
    cover: 20,
    key: "prefix/24",
    filter: "tcp or udp and not port 53",
    estimators: { lds: "rows=6,columns=300,k=3,keys=400" },
  },
  {
    place: "xdp",
    cover: 300,
    key: "proto",
    filter: "ip6 or (len > 100 and ttl < 200)",
    estimators: { colate: "n=4096,m=4,unit=1024,vectors=1" },
  },
  {
    place: "tc-egress",
    cover: 48,
    key: "hosts",
    filter: "src net 128.0.0.0/1 or dst net 8000::/1 or vlan",
    estimators: { lda: "banks=6", flows: "" },
  },
  { place: "socket", cover: 20, key: "5tuple", filter: "", estimators: ALL },
];

/** One term of each kind, with numbers that split random frames into matching and others. */
const term = fc.oneof(
  fc.constantFrom("ip", "ip6", "tcp", "udp", "sctp", "icmp", "icmp6", "vlan", "fragment", "fragment later"),
  fc.constantFrom("ip multicast", "ip6 multicast", "ip[6:2] & 0x1fff != 0", "tcp[tcpflags] & tcp-syn != 0"),
  fc.constantFrom("inbound", "outbound", "port 53", "src and dst port 53", "tcp dst port 443"),
  fc
    .tuple(
      fc.constantFrom("len", "ttl", "dscp", "ip[8]", "ip6[7]", "ip[4:2]", "ip[9]", "ip[1] & 0xfc"),
      fc.constantFrom("=", "!=", "<", "<=", ">", ">="),
      fc.nat(63),
      fc.constantFrom(1, 4),
    )
    .map(([field, sign, n, times]) => `${field} ${sign} ${field === "dscp" ? n : n * times}`),
  fc
    .tuple(fc.constantFrom("", "src ", "dst ", "src and dst "), fc.nat(255), fc.nat(24))
    .map(
      ([end, first, bits]) =>
        `${end}net ${bits === 0 ? 0 : first & (256 - 2 ** Math.max(0, 8 - bits))}.0.0.0/${bits}`,
    ),
  fc
    .tuple(fc.constantFrom("", "src ", "dst "), fc.nat(0xf), fc.integer({ min: 1, max: 4 }))
    .map(([end, first, bits]) => `${end}net ${(first & (16 - 2 ** (4 - bits))).toString(16)}000::/${bits}`),
  fc.tuple(fc.nat(0xffff), fc.nat(0xffff)).map(([a, b]) => `portrange ${Math.min(a, b)}-${Math.max(a, b)}`),
  fc.nat(255).map((n) => `proto ${n}`),
);
const { tree: filters } = fc.letrec<{ tree: string }>((tie) => ({
  tree: fc.oneof(
    { maxDepth: 4 },
    term,
    tie("tree").map((inner) => `not (${inner})`),
    fc
      .tuple(tie("tree"), fc.constantFrom("and", "or"), tie("tree"))
      .map(([left, join, right]) => `(${left}) ${join} (${right})`),
  ),
}));

/** Nested headers: labels, tags, IPv6 extensions, more than the first read of a frame covers. */
function deepFrames(): Uint8Array[] {
  const udp = p.stack([p.udp({ sport: 1024, dport: 53 })], new Uint8Array(90).fill(7));
  const v6 = (chain: readonly number[]) => {
    const extensions = chain.map((units, i) => p.extension(i === chain.length - 1 ? 17 : 60, units));
    return p.stack([p.ipv6({ next: chain.length === 0 ? 17 : 60 }), ...extensions], udp);
  };
  const chains = [15, 16, 17, 40, 100].map((n) => new Array<number>(n).fill(0));
  const frames = [...chains, [60], [7, 60, 60], [0, 200]].map((chain) =>
    p.stack([p.ethernet(0x86dd)], v6(chain)),
  );
  for (const n of [1, 3, 39, 41, 120]) {
    const labels = p.mpls(...Array.from({ length: n }, (_, i) => 16 + i));
    frames.push(p.stack([p.ethernet(0x8847), labels], v6([])));
    frames.push(p.stack([p.ethernet(0x8847), labels, p.ipv4({ proto: 17 })], udp));
    const tags = Array.from({ length: n }, (_, i) => p.vlan(i, i === n - 1 ? 0x0800 : 0x88a8));
    frames.push(p.stack([p.ethernet(0x88a8), ...tags, p.ipv4({ proto: 17 })], udp));
  }
  return frames;
}

function realFrames(file: string, limit: number): Uint8Array[] {
  const raw = readFileSync(file);
  const bytes = file.endsWith(".gz") ? gunzipSync(raw) : raw;
  const magic = bytes.readUInt32LE(0);
  if ((magic !== 0xa1b2c3d4 && magic !== 0xa1b23c4d) || bytes.readUInt32LE(20) !== 1) return [];
  const frames: Uint8Array[] = [];
  for (let at = 24; at + 16 <= bytes.length && frames.length < limit; ) {
    const captured = bytes.readUInt32LE(at + 8);
    const frame = bytes.subarray(at + 16, at + 16 + captured);
    if (frame.length === captured && captured >= 14 && captured <= LONGEST)
      frames.push(Uint8Array.from(frame));
    at += 16 + captured;
  }
  return frames;
}

/** Few frames by default; more with HOPTIME_EBPF_FRAMES=20000. */
const RUNS = Number(process.env["HOPTIME_EBPF_FRAMES"] ?? 500);
/** More filters with HOPTIME_EBPF_FILTERS=200. */
const FILTERS = Number(process.env["HOPTIME_EBPF_FILTERS"] ?? 4);
const onEthernet = ({ link, frame }: LinkFrame) => link === 1 && frame.length >= 14;
const frames = missing
  ? []
  : [validFrame, hostileFrame, hostileFrame].flatMap((arbitrary, i) =>
      fc.sample(arbitrary.filter(onEthernet), { numRuns: RUNS / 3, seed: 19 + i }).map(({ frame }) => frame),
    );

describe.skipIf(missing)("programs in the kernel", () => {
  test.each(SCENES)(
    "make of random frames at $place what the WASM kernels make of them: cover $cover, key $key, filter '$filter'",
    async (scene) => {
      const seen = await compare(scene, frames);
      expect(seen["row"]).toBeGreaterThan(frames.length / 10);
      if (scene.filter !== "") expect(seen["filtered"]).toBeGreaterThan(frames.length / 20);
      expect(Object.keys(seen).filter((name) => name.startsWith("reason")).length).toBeGreaterThanOrEqual(3);
    },
    60_000,
  );

  test("are taken by this kernel in both builds: with and without its types", async () => {
    const builds = existsSync("/sys/kernel/btf/vmlinux") ? ["observe", "observe-btf"] : ["observe"];
    for (const object of builds) {
      const datapath = await Datapath.load({ what: "lo", object, programs: ["observe_xdp"] });
      expect(testRun(datapath.bpf, datapath.program("observe_xdp"), plainFrame()).retval).toBe(2);
      datapath.close();
    }
  });

  test("read the clock that captures are timestamped by", async () => {
    const { libc } = await loadLibbpf("lo");
    const [CLOCK_REALTIME, CLOCK_MONOTONIC] = [0, 1];
    const offsets = Array.from({ length: 50 }, () => {
      const before = libc.clockNs(CLOCK_MONOTONIC);
      const wallNs = libc.clockNs(CLOCK_REALTIME);
      const offsetNs = wallOffsetNs(libc);
      expect(wallNs - offsetNs).toBeGreaterThanOrEqual(before);
      expect(wallNs - offsetNs).toBeLessThanOrEqual(libc.clockNs(CLOCK_MONOTONIC));
      return offsetNs;
    });
    // Exact: the same result every time.
    expect(new Set(offsets).size).toBe(1);
    expect(parseTimeNamespace("monotonic  -3  5\nboottime   7  0\n")).toBe(-2_999_999_995n);
  });

  test(
    "choose by random filters what the WASM kernels choose",
    async () => {
      const chosen = fc.sample(
        filters.filter((text) => kernelFilter(parseFilter(text)) !== null),
        { numRuns: FILTERS, seed: 19 },
      );
      for (const filter of chosen) {
        const own = frames.slice(0, 200);
        await compare({ place: "tc-ingress", cover: 32, key: "hosts", filter, estimators: {} }, own);
      }
    },
    60_000 + 10_000 * FILTERS,
  );

  test.each(["xdp", "tc-egress"] as const)(
    "follow headers at %s as far as the WASM kernels do, past what a first look takes in",
    async (place) => {
      for (const cover of [20, 64, 1500]) {
        const seen = await compare(
          { place, cover, key: "5tuple", filter: "", estimators: ALL },
          deepFrames(),
        );
        expect(seen["row"]).toBe(deepFrames().length);
      }
    },
  );

  test("make of real frames what the WASM kernels make of them", async () => {
    const demo = join(import.meta.dirname, "..", "..", "..", "demo", "router-in.pcap.gz");
    const traces = sharedTraces("real frames through eBPF programs");
    const files = traces ? filesUnder(traces).filter((f) => /\.pcap(\.gz)?$/.test(f)) : [];
    const frames = [demo, ...files].flatMap((file) => realFrames(file, 600)).slice(0, 8000);
    const seen = await compare(
      { place: "xdp", cover: 64, key: "5tuple", filter: "", estimators: ALL },
      frames,
    );
    expect(seen["row"]).toBeGreaterThan(400);
  });

  test("keep times on the clock as it was until it is known that it was set, and on the new one then", async () => {
    const realNs = () => BigInt(Date.now()) * 1_000_000n;
    let stepNs = 0n;
    const { libc } = await loadLibbpf("lo");
    const offsetNs = () => wallOffsetNs(libc) + stepNs;
    const plan = { name: "lo", place: "xdp", cover: 64, seed: SEED, direction: "in", sets: 2 } as const;
    const mask = FlowKeySpec.parse("5tuple").maskWords();
    for (const below of [null, 1]) {
      stepNs = 0n;
      const sketch = await KernelSketch.load({ ...plan, mask, offsetNs, below, filter: null, parts: [] });
      try {
        const program = sketch.datapath.program("observe_xdp");
        const send = () => testRun(sketch.datapath.bpf, program, plainFrame());
        const startNs = realNs() - 1_000_000n;
        if (below === null) sketch.setWindow(0, { startNs, endNs: startNs + EPOCH_NS, baseNs: startNs });
        send();
        for (const step of [1_000_000_000n, -2_000_000_000n]) {
          stepNs += step;
          send();
        }
        expect(sketch.clockWasSet()).toBe(true);
        expect(sketch.clockWasSet()).toBe(false);
        const { packets, firstNs, lastNs } = sketch.counts(0);
        expect(packets).toBe(3);
        expect(Number((lastNs ?? 0n) - (firstNs ?? 0n))).toBeLessThan(5e8);
        expect(Math.abs(Number((lastNs ?? 0n) - realNs()))).toBeLessThan(5e8);
        // A second ago by now.
        if (below === null) {
          sketch.setWindow(0, null);
          sketch.setWindow(1, {
            startNs: realNs() - 2n * 10n ** 9n,
            endNs: realNs() - 10n ** 8n,
            baseNs: startNs,
          });
        } else expect(sketch.cutNow(0n)).toBe(true);
        send();
        const after = sketch.counts(1);
        expect(after.packets).toBe(1);
        expect(Math.abs(Number((after.firstNs ?? 0n) - realNs() + 10n ** 9n))).toBeLessThan(5e8);
        const baseNs = sketch.baseOf(1) ?? 0n;
        expect(below === null ? baseNs : baseNs % 2n ** 36n).toBe(below === null ? startNs : 0n);
      } finally {
        sketch.close();
      }
    }
  });
});

/** UDP over IPv4, 100 bytes. */
function plainFrame(): Uint8Array {
  const bytes = Buffer.alloc(114);
  bytes.writeUInt16BE(0x0800, 12);
  bytes.set([0x45, 0, 0, 100, 0, 0, 0, 0, 64, 17, 0, 0, 198, 18, 0, 1, 198, 18, 0, 2], 14);
  return bytes;
}
