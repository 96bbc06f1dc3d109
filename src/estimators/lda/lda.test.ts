import fc from "fast-check";
import { afterAll, describe, expect, it } from "vitest";
import { type HostileRow, hostileRows, sealRows } from "../../../tests/support/hostile-rows.ts";
import { FormatError } from "../../base/errors.ts";
import { Kernels } from "../../base/kernels.ts";
import { Random } from "../../base/random.ts";
import { isNoAnswer, type SealedEpoch, type SegmentEstimate } from "../estimator.ts";
import { parseParameters } from "../parameters.ts";
import { lda } from "./lda.ts";
import type { LdaParameters } from "./parameters.ts";
import { decodeRows, encodeRows, fingerprint, type LdaRows } from "./payload.ts";
import { hashRanges } from "./sampling.ts";

const kernels = new Kernels();
const SEED = 42n;
const MASK = (1n << 64n) - 1n;

/** kernels/decode/digest.ts rehash, calculated slowly. */
function rehash(digest: bigint, seed: bigint): bigint {
  let h = ((digest ^ seed) * 0x9e3779b185ebca87n + 0x27d4eb2f165667c5n) & MASK;
  h = ((h ^ (h >> 33n)) * 0xc2b2ae3d27d4eb4fn) & MASK;
  h = ((h ^ (h >> 29n)) * 0x165667b19e3779f9n) & MASK;
  return h ^ (h >> 32n);
}

/** The update procedure of section III-C as written, packet by packet. */
function slowTwin(
  rows: readonly HostileRow[],
  parameters: LdaParameters,
  seed: bigint,
  startNs: number,
): LdaRows {
  const cells = parameters.banks * parameters.rows;
  const out: LdaRows = {
    banks: parameters.banks,
    rows: parameters.rows,
    fingerprint: fingerprint(seed, parameters),
    sum: new BigInt64Array(cells),
    count: new Uint32Array(cells),
    digest: parameters.digest ? new Uint32Array(cells) : null,
  };
  const { from, limit } = hashRanges(parameters.sampling);
  for (const row of rows) {
    const digest = (BigInt(row.digest[1]) << 32n) | BigInt(row.digest[0]);
    const hash = rehash(digest, seed);
    const g = hash >> 32n;
    const bank = g >= limit ? -1 : from.findIndex((edge) => g >= edge);
    if (bank < 0) continue;
    const cell = bank * parameters.rows + Number(((hash & 0xffff_ffffn) * BigInt(parameters.rows)) >> 32n);
    out.sum[cell] = BigInt.asIntN(64, out.sum[cell]! + BigInt(row.timeNs - startNs));
    out.count[cell]!++;
    if (out.digest) out.digest[cell]! ^= row.digest[0];
  }
  return out;
}

function seal(rows: readonly HostileRow[], parameters: LdaParameters, startNs = 0, size = 333): SealedEpoch {
  const tap = lda.createTap({ kernels, role: "sender", seed: SEED }, parameters);
  tap.begin(startNs);
  return sealRows(kernels, tap, rows, size);
}

describe("the update kernel", () => {
  it("does what its slow twin does, for any geometry, seed and start", () => {
    const rows = hostileRows("lda twin", 400);
    const geometry = fc.record({
      rows: fc.integer({ min: 2, max: 40 }),
      banks: fc.integer({ min: 1, max: 8 }),
      share: fc.integer({ min: 1, max: 100 }),
      digest: fc.boolean(),
      startNs: fc.integer({ min: -(2 ** 40), max: 2 ** 40 }),
      size: fc.integer({ min: 1, max: 500 }),
    });
    fc.assert(
      fc.property(geometry, ({ rows: m, banks, share, digest, startNs, size }) => {
        const sampling = Array.from(
          { length: banks },
          (_, j) => share / 100 / 2 ** (j + (banks === 1 ? 0 : 1)),
        );
        const text = `rows=${m},sampling=${sampling.join("/")},digest=${digest}`;
        const parameters = parseParameters(lda, text);
        const twin = encodeRows(slowTwin(rows, parameters, SEED, startNs));
        expect(Buffer.compare(seal(rows, parameters, startNs, size).payload, twin)).toBe(0);
      }),
      { numRuns: 60, seed: 7 },
    );
  });

  it("spreads packets over banks and rows as it says", () => {
    const random = new Random("spread");
    const parameters = parseParameters(lda, "rows=64,sampling=0.5/0.25/0.1");
    const packets = 200_000;
    const rows = Array.from(
      { length: packets },
      (_, i): HostileRow => ({
        ...plain(i, 0),
        // Consecutive digests: the hash has to spread them.
        digest: [i, random.below(2)],
      }),
    );
    const { count } = decodeRows(seal(rows, parameters, 0, 5000), parameters, SEED);
    // Chi-square with 192 degrees of freedom (191 rows and the rest): above 275 once in 10,000.
    let chi = 0;
    let sampled = 0;
    for (const [bank, p] of [0.5, 0.25, 0.1].entries()) {
      for (let row = 0; row < 64; row++) {
        const expected = (packets * p) / 64;
        chi += (count[64 * bank + row]! - expected) ** 2 / expected;
        sampled += count[64 * bank + row]!;
      }
    }
    chi += (packets - sampled - 0.15 * packets) ** 2 / (0.15 * packets);
    expect(chi).toBeLessThan(275);
  });
});

function plain(id: number, timeNs: number): HostileRow {
  const random = new Random(id);
  return {
    timeNs,
    digest: [random.uint32(), random.uint32()],
    meta: [1, 6],
    address: [1, 2, 0, 0, 0, 0, 0, 0],
    wireLength: 100,
    delayNs: Number.NaN,
  };
}

interface Story {
  packets?: number;
  lost?: (id: number) => boolean;
  /** Packets that only the receiver sees. */
  foreign?: number;
  delayNs?: (id: number) => number;
  text?: string;
  epochNs?: number;
}

/** Returns the answer for one packet per ms. */
function tell({
  packets = 4000,
  lost = () => false,
  foreign = 0,
  delayNs = () => 1000,
  text = "",
  epochNs = 4e9,
}: Story) {
  const parameters = parseParameters(lda, text);
  const step = epochNs / packets;
  const sent = Array.from({ length: packets }, (_, id) => plain(id, Math.round(id * step)));
  const arrived = sent.filter((_, id) => !lost(id)).map((r) => ({ ...r }));
  sent.forEach((row, id) => {
    row.delayNs = delayNs(id);
  });
  for (const row of arrived) row.timeNs += delayNs(Math.round(row.timeNs / step));
  for (let i = 0; i < foreign; i++) arrived.push(plain(1e7 + i, Math.round((i + 0.5) * (epochNs / foreign))));
  const delays = sent.filter((_, id) => !lost(id)).map((r) => r.delayNs);
  const meanNs = delays.reduce((s, d) => s + d, 0) / delays.length;
  const answer = lda.estimate({
    parameters,
    seed: SEED,
    sender: seal(sent, parameters),
    receiver: seal(arrived, parameters),
    flows: null,
    confidence: 0.99,
    epochNs,
  });
  return { segment: answer.segment as SegmentEstimate, meanNs };
}

function meanOf(segment: SegmentEstimate) {
  if (isNoAnswer(segment.mean)) throw new Error(segment.mean.text);
  return segment.mean;
}

describe("the estimate", () => {
  it("is the example of figure 2: 90/8 where the second of four rows lost a packet", () => {
    const parameters = parseParameters(lda, "rows=4,sampling=1,digest=false");
    const rows = (sum: number[], count: number[]): SealedEpoch => ({
      payload: encodeRows({
        banks: 1,
        rows: 4,
        fingerprint: fingerprint(SEED, parameters),
        sum: BigInt64Array.from(sum, BigInt),
        count: Uint32Array.from(count),
        digest: null,
      }),
      packets: count.reduce((s, n) => s + n, 0),
    });
    const { segment } = lda.estimate({
      parameters,
      seed: SEED,
      sender: rows([120, 234, 15, 6], [5, 10, 2, 1]),
      receiver: rows([180, 348, 37, 14], [5, 9, 2, 1]),
      flows: null,
      confidence: 0.95,
      epochNs: 1000,
    });
    expect(segment).toMatchObject({ sent: 18, received: 17, lost: 1, packetsUsed: 8, notes: [] });
    expect(meanOf(segment!).valueNs).toBe(90 / 8);
    expect(segment!.coverage).toBe(8 / 17);
  });

  it("is exact where nothing is lost and every packet sampled", () => {
    const { segment, meanNs } = tell({ delayNs: (id) => 500 + (id % 97) });
    const mean = meanOf(segment);
    expect(mean.valueNs).toBeCloseTo(meanNs, 9);
    expect([mean.lowNs, mean.highNs]).toEqual([mean.valueNs, mean.valueNs]);
    expect(segment).toMatchObject({ lost: 0, coverage: 1, notes: [] });
  });

  it("loses one row to a lost packet, and no more", () => {
    const parameters = parseParameters(lda, "rows=100,sampling=1");
    const { segment } = tell({ text: "rows=100,sampling=1", lost: (id) => id === 17 });
    const hash = rehash((BigInt(plain(17, 0).digest[1]) << 32n) | BigInt(plain(17, 0).digest[0]), SEED);
    const row = Number(((hash & 0xffff_ffffn) * 100n) >> 32n);
    const all = decodeRows(
      seal(
        Array.from({ length: 4000 }, (_, i) => plain(i, i)),
        parameters,
      ),
      parameters,
    );
    expect(segment.packetsUsed).toBe(4000 - all.count[row]!);
    expect(segment.lost).toBe(1);
  });

  it("says that there is no whole row left when every row lost packets", () => {
    const { segment } = tell({ text: "rows=4,sampling=1", lost: (id) => id % 10 === 0 });
    expect(segment.mean).toMatchObject({ reason: "no-usable-cells" });
    expect(segment).toMatchObject({ lost: 400, packetsUsed: 0 });
  });

  it("survives sums beyond 2^64: only their difference counts", () => {
    // Epochs of a quarter of a year: 4000 packets add up to 3e19 ns.
    const { segment, meanNs } = tell({ text: "rows=2,sampling=1", epochNs: 2 ** 53, delayNs: () => 12_345 });
    expect(meanOf(segment).valueNs).toBeCloseTo(meanNs, 6);
  });

  it("finds negative delays: clocks apart are not its affair", () => {
    const { segment } = tell({ delayNs: () => -7_000 });
    expect(meanOf(segment).valueNs).toBe(-7_000);
  });

  it("gives the paper's bound (1) as printed, wider than its own interval", () => {
    const story = {
      lost: (id: number) => id % 100 === 0,
      delayNs: (id: number) => 1000 + ((id * 7919) % 500),
    };
    const answer = (text: string) => tell({ ...story, text }).segment;
    const width = (text: string) => {
      const { lowNs, highNs } = meanOf(answer(text));
      return highNs - lowNs;
    };
    const { stdev, packetsUsed = 0 } = answer("interval=bound") ?? {};
    // P(|D - mu| >= e mu) <= 2 exp(-e^2 S mu^2 / 2 sigma^2) = 1 %.
    const sigma = stdev && !isNoAnswer(stdev) ? stdev.valueNs : Number.NaN;
    const printed = 2 * sigma * Math.sqrt((2 * Math.log(2 / 0.01)) / packetsUsed);
    expect(width("interval=bound") / printed).toBeCloseTo(1, 9);
    expect(width("interval=bound")).toBeGreaterThan(width("interval=student"));
  });
});

describe("packets that are not of the stream", () => {
  const delayNs = (id: number) => 1000 + ((id * 7919) % 500);
  const loss = (id: number) => id % 400 === 3;

  it("are distinguished from loss, and the mean stays right", () => {
    const { segment, meanNs } = tell({ foreign: 60, lost: loss, delayNs });
    const mean = meanOf(segment);
    expect(mean.lowNs).toBeLessThanOrEqual(meanNs);
    expect(mean.highNs).toBeGreaterThanOrEqual(meanNs);
    // 10 lost and 60 foreign: the receiver has more packets than the sender, so the loss is unknown.
    expect(segment.lost).toBeNull();
    expect(segment.notes.join()).toMatch(
      /about [12] % of the packets received were counted at the receiver only/,
    );
  });

  it("that take the place of lost ones are noticed by the digests of their rows", () => {
    const { segment, meanNs } = tell({
      foreign: 400,
      lost: (id) => id % 10 === 3,
      delayNs,
      text: "rows=1024,sampling=1",
    });
    // 400 of 4000 packets, found from the spread of the rows and their digests.
    expect(segment.notes.join()).toMatch(
      /about (9|10) % of the packets received were counted at the receiver only/,
    );
    const mean = meanOf(segment);
    expect(Math.abs(mean.valueNs / meanNs - 1)).toBeLessThan(0.05);
    expect(segment.lost).toBe(0);
  });

  it("make no number without digests, as rows that seem whole may not be", () => {
    const { segment } = tell({
      foreign: 400,
      lost: (id) => id % 10 === 3,
      delayNs,
      text: "rows=1024,sampling=1,digest=false",
    });
    expect(segment.mean).toMatchObject({ reason: "foreign-packets" });
  });

  it("at both ends alike leave nothing to answer from, and it says whose fault it is", () => {
    const parameters = parseParameters(lda, "");
    const own = Array.from({ length: 3000 }, (_, i) => plain(i, i));
    const other = Array.from({ length: 3000 }, (_, i) => plain(1e6 + i, i));
    const { segment } = lda.estimate({
      parameters,
      seed: SEED,
      sender: seal(own, parameters),
      receiver: seal(other, parameters),
      flows: null,
      confidence: 0.95,
      epochNs: 3000,
    });
    expect(segment!.mean).toMatchObject({ reason: "foreign-packets" });
    expect(segment!.notes.join()).toMatch(/about (80|90|100) % of the packets received/);
  });

  it("are not suspected in 300 epochs with loss alone (each alarms falsely once in 700: 5 alarms come once in 10,000)", () => {
    const random = new Random("false alarms");
    const parameters = parseParameters(lda, "rows=64,sampling=1");
    let alarms = 0;
    for (let run = 0; run < 300; run++) {
      const losses = random.below(200);
      const rows = (keep: (i: number) => boolean): SealedEpoch => {
        const count = new Uint32Array(64);
        const digest = new Uint32Array(64);
        for (let i = 0; i < 2000; i++) {
          if (!keep(i)) continue;
          const row = places[i]!;
          count[row]!++;
          digest[row]! ^= i + 1;
        }
        const sum = BigInt64Array.from(count, (n) => BigInt(n));
        const payload = encodeRows({
          banks: 1,
          rows: 64,
          fingerprint: fingerprint(SEED, parameters),
          sum,
          count,
          digest,
        });
        return { payload, packets: count.reduce((s, n) => s + n, 0) };
      };
      const places = Array.from({ length: 2000 }, () => random.below(64));
      const input = { parameters, seed: SEED, flows: null, confidence: 0.95, epochNs: 1e9 };
      const answer = lda.estimate({ ...input, sender: rows(() => true), receiver: rows((i) => i >= losses) });
      if (answer.notes.length > 0) alarms++;
      else expect(answer.segment!.lost).toBe(losses);
    }
    expect(alarms).toBeLessThan(5);
  });
});

describe("the payload", () => {
  it("says what it is not when it is refused", () => {
    const parameters = parseParameters(lda, "rows=8,sampling=0.5");
    const sealed = seal(hostileRows("refused", 50), parameters);
    const decode = (text: string, seed?: bigint) => () =>
      decodeRows(sealed, parseParameters(lda, text), seed);
    expect(decode("rows=9,sampling=0.5")).toThrow(/1 banks of 8 rows, expected 1 of 9/);
    expect(decode("rows=8,sampling=0.5,digest=false")).toThrow(/rows with digests, expected digest=false/);
    expect(decode("rows=8,sampling=0.4", SEED)).toThrow(/another seed or other sampling/);
    expect(() => decodeRows({ ...sealed, packets: 1 }, parameters)).toThrow(FormatError);
    expect(encodeRows(decodeRows(sealed, parameters, SEED))).toEqual(sealed.payload);
  });
});

afterAll(() => {
  // All taps and batches were freed: the memory of this instance has not grown beyond the needs of a few sketches.
  expect(kernels.memory.buffer.byteLength).toBeLessThan(64 << 20);
});
