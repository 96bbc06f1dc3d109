/**
 * Measures the time per packet of each stage between the ring and the sketches of `hoptime observe IFACE` with lda and lds, on blocks in memory in the kernel's
 * format. Needs no root and no idle machine: the best of many rounds is reported. The frames are those of bench/live.ts.
 *
 *   node scripts/bench.mjs live-stages [--rounds 40] [--flows 1000] [--blocks 32] [--bytes 100] [--sweep 8] [--rows 2048]
 */

import { CursorLayout, cursorConstants, walkRingConstants } from "../src/base/kernel-layout.ts";
import { Kernels } from "../src/base/kernels.ts";
import { FLAG, PacketBatch } from "../src/capture/batch.ts";
import { FlowKeySpec } from "../src/capture/flow/flow-key.ts";
import { DEFAULT_SEED } from "../src/capture/reader.ts";
import { HeavyKeysTap } from "../src/estimators/lds/heavy-keys.ts";
import { parseParameters } from "../src/estimators/parameters.ts";
import { findEstimator } from "../src/estimators/table.ts";
import { type RingPacket, ringBlock } from "../tests/support/ring-block.ts";

const option = (name: string, otherwise: number) => {
  const at = process.argv.indexOf(`--${name}`);
  return at < 0 ? otherwise : Number(process.argv[at + 1]);
};
const [rounds, flows, blocks, bytes] = [
  option("rounds", 40),
  option("flows", 1000),
  option("blocks", 32),
  option("bytes", 100),
];
const SNAP = 96;
const BLOCK_BYTES = 1 << 18;
const EPOCH_NS = 1e9;
const START_NS = 1_700_000_000_000_000_000n;

/** As in bench/reference/send-frames.c. */
function frameOf(n: number): Uint8Array {
  const f = Buffer.alloc(SNAP);
  f.fill(2, 0, 12);
  f.writeUInt16BE(0x0800, 12);
  f[14] = 0x45;
  f.writeUInt16BE(bytes - 14, 16);
  f.writeUInt16BE(n & 0xffff, 18);
  f[22] = 64;
  f[23] = 17;
  const flow = Number((BigInt(n) * 2654435761n) >> 7n) % flows;
  f.writeUInt32BE(0x0a000001 + Math.floor(flow / 50), 26);
  f.writeUInt32BE(0x0a010001, 30);
  f.writeUInt16BE(1024 + (flow % 50), 34);
  f.writeUInt16BE(9000, 36);
  f.writeUInt16BE(bytes - 34, 38);
  f.writeBigUInt64LE(BigInt(n), 42);
  return f;
}

const kernels = new Kernels();
const { call } = kernels;
const slot = ringBlock([{ timeNs: START_NS, frame: frameOf(0), wire: bytes }]).bytes.length - 48;
const perBlock = Math.floor((BLOCK_BYTES - 48) / slot);
const ring = kernels.alloc(blocks * BLOCK_BYTES + 64);
const firsts: number[] = [];
for (let b = 0; b < blocks; b++) {
  const packets: RingPacket[] = Array.from({ length: perBlock }, (_, i) => {
    const n = b * perBlock + i;
    return { timeNs: START_NS + BigInt(700 * n), frame: frameOf(n), wire: bytes };
  });
  const made = ringBlock(packets);
  kernels.u8.set(made.bytes, ring + b * BLOCK_BYTES);
  firsts.push(made.first);
}

const batch = new PacketBatch(kernels, option("rows", 2048));
batch.makeLean();
const cursor = call.cursorNew() >>> 0;
const set = (field: keyof typeof CursorLayout, value: number) =>
  kernels.writeU32(cursor + CursorLayout[field], value);
kernels.writeU64(cursor + CursorLayout.seed, DEFAULT_SEED);
set("cover", 64);
set("link", walkRingConstants.RING_ETHERNET);
set("longest", 1536);
const mask = FlowKeySpec.parse(undefined).store(kernels);
const shorts = kernels.alloc(4 * 1536);
const tapOf = (name: string, text = "") => {
  const estimator = findEstimator(name);
  const tap = estimator.createTap(
    { kernels, role: "sender", seed: DEFAULT_SEED },
    parseParameters(estimator, text),
  );
  tap.begin(0, START_NS, 0n);
  return tap;
};
const [lda, lds] = [tapOf("lda"), tapOf("lds", "keys=0")];
const keys = new HeavyKeysTap(kernels, 1024);

/** Displaces data from the caches, as other work does between two reads of the ring. */
const elsewhere = new Float64Array(option("sweep", 8) << 17);
const sweep = () => {
  for (let i = 0; i < elsewhere.length; i += 8) elsewhere[i] = (elsewhere[i] ?? 0) + 1;
};

let outcome = 0;
const stages: [string, () => void][] = [
  [
    "walk and decode",
    () => {
      outcome = call.walkRing(cursor, batch.address);
      call.countShorts(batch.address, shorts);
    },
  ],
  ["key", () => call.keyFlows(batch.address, mask, DEFAULT_SEED)],
  ["epoch", () => batch.rowsWithin(0, 0, EPOCH_NS)],
  [
    "counters",
    () => {
      batch.countFlagged(0, batch.count, FLAG.short);
      batch.countBefore(0, batch.count, 0);
    },
  ],
  ["lda", () => lda.update(batch, 0, batch.count)],
  ["lds", () => lds.update(batch, 0, batch.count)],
  ["flow keys", () => keys.update(batch, 0, batch.count)],
];

const best = new Map<string, number>();
let bestSum = Number.POSITIVE_INFINITY;
for (let round = 0; round < rounds; round++) {
  sweep();
  const spent = stages.map(() => 0);
  let packets = 0;
  for (let b = 0; b < blocks; b++) {
    const start = ring + b * BLOCK_BYTES;
    set("pos", start + (firsts[b] ?? 0));
    set("limit", start + BLOCK_BYTES);
    set("left", perBlock);
    do {
      batch.count = 0;
      for (const [i, [, run]] of stages.entries()) {
        const from = performance.now();
        run();
        spent[i] = (spent[i] ?? 0) + performance.now() - from;
      }
      packets += batch.count;
    } while (outcome === cursorConstants.BATCH_FULL);
  }
  for (const [i, [name]] of stages.entries())
    best.set(name, Math.min(best.get(name) ?? Number.POSITIVE_INFINITY, (1e6 * (spent[i] ?? 0)) / packets));
  bestSum = Math.min(bestSum, (1e6 * spent.reduce((sum, ms) => sum + ms, 0)) / packets);
}
for (const [name, ns] of best) console.error(`${name.padEnd(16)} ${ns.toFixed(1)} ns`);
console.log(JSON.stringify({ stagesNs: Object.fromEntries(best), nsPerPacket: bestSum }));
