/** Forged references from another sender: RLI must keep using those of its own sender. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, describe, expect, test } from "vitest";
import { type SmallPacket, writePcap } from "../../../tests/support/small-pcap.ts";
import { Kernels } from "../../base/kernels.ts";
import { CaptureReader } from "../../capture/reader.ts";
import { ReferenceVerifier } from "../../delays/reference-key.ts";
import { encodeAuthenticatedStamp, encodeStamp, type StampPacket } from "../../delays/stamp.ts";
import { isNoAnswer } from "../estimator.ts";
import { formatParameters, parseParameters } from "../parameters.ts";
import { decodeRli } from "./payload.ts";
import { rli } from "./rli.ts";

const scratch = mkdtempSync(join(tmpdir(), "hoptime-forged-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));
const START = 1_700_000_000_000_000_000n;
const SEED = 7n;
const REFERENCES = 1000;
const MS = 1_000_000;
const KEY = Buffer.alloc(32, "k");

interface Reference {
  atNs: number;
  sequence: number;
  delayNs: number;
  session?: number;
  src?: string;
  key?: Uint8Array;
}

function stamp({ atNs, sequence, delayNs, session = 1, src = "10.0.0.9", key }: Reference): SmallPacket {
  const timeNs = START + BigInt(atNs);
  const packet: StampPacket = {
    ...{ sequence, session, timeNs: timeNs - BigInt(delayNs), synchronised: true, errorNs: 20_000 },
  };
  const payload = key ? encodeAuthenticatedStamp(packet, key) : encodeStamp(packet);
  return { timeNs, src, dst: "10.2.0.9", sport: 862, dport: 862, ipid: sequence & 0xffff, payload };
}

/** Delay of packets: oscillates between 200 and 800 us. */
const delayAt = (atNs: number) => Math.round(500_000 + 300_000 * Math.sin(atNs / (40 * MS)));
const own = (change: (r: Reference, i: number) => Reference = (r) => r): SmallPacket[] =>
  Array.from({ length: REFERENCES }, (_, i) =>
    stamp(change({ atNs: i * MS, sequence: i, delayNs: delayAt(i * MS) }, i)),
  );
const data: SmallPacket[] = Array.from({ length: 3 * REFERENCES }, (_, i) => ({
  ...{ timeNs: START + BigInt(Math.floor((i + 0.4) * (MS / 3))), src: "10.1.0.1", dst: "10.2.0.1" },
  ...{ sport: 1000, dport: 80, ipid: i & 0xffff },
}));
const truth = data.reduce((sum, p) => sum + delayAt(Number(p.timeNs - START)), 0) / data.length;

let files = 0;
async function ask(references: readonly SmallPacket[], text = "", key?: Uint8Array) {
  const file = join(scratch, `${files++}.pcap`);
  writePcap(
    file,
    [...references, ...data].sort((a, b) => Number(a.timeNs - b.timeNs)),
  );
  const kernels = new Kernels();
  const parameters = parseParameters(rli, text);
  const verifier = key ? new ReferenceVerifier(kernels, key) : null;
  const reader = await CaptureReader.open(kernels, file);
  const tap = rli.createTap({ kernels, role: "receiver", seed: SEED }, parameters);
  for (let begun = false; await reader.next(); begun = true) {
    if (!begun) tap.begin(0, reader.originNs ?? 0n);
    verifier?.verify(reader.batch);
    tap.update(reader.batch, 0, reader.batch.count);
  }
  reader.close();
  reader.free();
  const receiver = tap.seal();
  tap.free();
  verifier?.free();
  const rest = { sender: null, flows: null, confidence: 0.95, epochNs: 1e9 };
  const { segment } = rli.estimate({ parameters, seed: SEED, receiver, ...rest });
  const { counters } = decodeRli(receiver, parameters, SEED);
  return { mean: segment?.mean, counters, notes: segment?.notes.join("\n") ?? "" };
}

async function expectTruth(references: readonly SmallPacket[], within = 0.01, text = "") {
  const { mean, counters, notes } = await ask(references, text);
  if (!mean || isNoAnswer(mean)) throw new Error("no answer");
  expect(Math.abs(mean.valueNs / truth - 1)).toBeLessThan(within);
  expect(mean.lowNs).toBeLessThan(truth);
  expect(mean.highNs).toBeGreaterThan(truth);
  return { counters, notes };
}

/** 17 forged references among 1,000. */
const forge = (make: (atNs: number, i: number) => Reference) =>
  Array.from({ length: 17 }, (_, i) => stamp(make((50 + 55 * i) * MS + 300_000, i)));

describe("17 forged references among 1,000 change nothing", () => {
  const ahead = { delayNs: -1e9 };
  const CASES: [string, SmallPacket[]][] = [
    ["from another source", forge((atNs, i) => ({ atNs, sequence: i, src: "10.9.9.9", ...ahead }))],
    ["of another session", forge((atNs, i) => ({ atNs, sequence: i, session: 77, ...ahead }))],
    [
      "with source, session and the next number, sent a second from now",
      forge((atNs) => ({ atNs, sequence: Math.ceil(atNs / MS), ...ahead })),
    ],
    ["numbered far ahead", forge((atNs, i) => ({ atNs, sequence: 4_000_000_000 + i, ...ahead }))],
    ["of a second ago", forge((atNs) => ({ atNs, sequence: Math.ceil(atNs / MS), delayNs: 1e9 }))],
    [
      "in one burst",
      Array.from({ length: 17 }, (_, i) => stamp({ atNs: 500 * MS + 1000 * i, sequence: 501 + i, ...ahead })),
    ],
  ];
  test.each(CASES)("%s", async (_, forged) => {
    const { counters, notes } = await expectTruth([...own(), ...forged]);
    expect(counters.forged).toBe(17);
    expect(counters.seen).toBe(REFERENCES);
    expect(notes).toMatch(/17 packets to the references' port not used/);
  });

  test("before all others: they are outvoted within as many", async () => {
    const first = Array.from({ length: 17 }, (_, i) =>
      stamp({ atNs: 1000 * i - 100_000, sequence: i, src: "10.9.9.9", ...ahead }),
    );
    const { counters } = await expectTruth([...own(), ...first], 0.03);
    expect(counters.restarts).toBe(1);
  });
});

test("a sender whose clock is ahead is believed from its first reference on", async () => {
  const { counters } = await ask(own((r) => ({ ...r, delayNs: r.delayNs - 5 * MS })));
  expect(counters).toMatchObject({ seen: REFERENCES, forged: 0, restarts: 0 });
});

test("one forged reference with a negative delay before all others leads until the next one comes", async () => {
  const first = stamp({ atNs: -100_000, sequence: 0, src: "10.9.9.9", delayNs: -MS });
  const { counters } = await expectTruth([...own(), first]);
  expect(counters).toMatchObject({ forged: 0, restarts: 1 });
});

test("a given source or session is the only one used, however many others there are", async () => {
  const flood = (change: Partial<Reference>) =>
    Array.from({ length: 4 * REFERENCES }, (_, i) =>
      stamp({ atNs: i * (MS / 4) + 7000, sequence: i, delayNs: 9 * MS, ...change }),
    );
  await expectTruth([...own(), ...flood({ src: "10.9.9.9" })], 0.01, "source=10.0.0.9");
  await expectTruth([...own(), ...flood({ session: 2 })], 0.01, "session=1");
  expect(() => parseParameters(rli, "source=nowhere")).toThrow(
    /invalid value 'nowhere' \(expected an IP address\)/,
  );
});

test("clocks that are apart are no forgery: all references agree on it", async () => {
  for (const offsetNs of [-50 * MS, 50 * MS]) {
    const { mean, counters } = await ask(own((r) => ({ ...r, delayNs: r.delayNs + offsetNs })));
    if (!mean || isNoAnswer(mean)) throw new Error("no answer");
    expect(Math.abs(mean.valueNs - offsetNs - truth)).toBeLessThan(0.02 * truth);
    expect(counters.seen).toBeGreaterThanOrEqual(REFERENCES - 3);
  }
});

test("a sender that is replaced, or restarts with its clock set back, is followed soon", async () => {
  const replaced = own((r, i) => (i < 500 ? r : { ...r, src: "10.0.0.10", sequence: i - 500 }));
  const back = own((r, i) => (i < 500 ? r : { ...r, delayNs: r.delayNs + 2e9, sequence: i - 500 }));
  for (const references of [replaced, back]) {
    const { counters } = await ask(references);
    expect(counters.restarts).toBe(1);
    expect(counters.seen).toBeGreaterThan(REFERENCES - 50);
  }
});

describe("authenticated references", () => {
  const signed = own((r) => ({ ...r, key: KEY }));

  test("are used where their code is right, and nothing else is", async () => {
    const other = Buffer.alloc(32, "x");
    const forged = Array.from({ length: 5 * REFERENCES }, (_, i) =>
      stamp({ atNs: i * (MS / 5) + 5000, sequence: i, delayNs: 8 * MS, ...(i % 2 ? { key: other } : {}) }),
    );
    const { mean, counters } = await ask([...signed, ...forged], "authenticated=true", KEY);
    if (!mean || isNoAnswer(mean)) throw new Error("no answer");
    expect(Math.abs(mean.valueNs / truth - 1)).toBeLessThan(0.01);
    expect(counters).toMatchObject({ seen: REFERENCES, forged: forged.length, lost: 0 });
  });

  test("without the key, or with another, there is no answer", async () => {
    for (const key of [undefined, Buffer.alloc(32, "x")]) {
      const { mean, counters } = await ask(signed, "authenticated=true", key);
      expect(mean).toMatchObject({ reason: "no-usable-cells" });
      expect(counters).toMatchObject({ seen: 0, forged: REFERENCES });
    }
  });

  test("records name no key", () => {
    expect(formatParameters(rli, parseParameters(rli, "authenticated=true"))).not.toMatch(/key/);
    // Parameters of records without it must look as before.
    expect(formatParameters(rli, parseParameters(rli, ""))).not.toMatch(/authenticated|source|every/);
  });

  test("a flipped bit anywhere, or another key, is refused exactly where node:crypto refuses it", async () => {
    const kernels = new Kernels();
    const path = join(scratch, "bits.pcap");
    await fc.assert(
      fc.asyncProperty(
        fc.uint8Array({ minLength: 1, maxLength: 90 }),
        fc.nat(96 * 8 + 16 * 8 - 1),
        fc.boolean(),
        async (key, bit, flip) => {
          const packet = stamp({ atNs: 0, sequence: 5, delayNs: 1000, key });
          if (flip && packet.payload)
            packet.payload[bit >> 3] = (packet.payload[bit >> 3] ?? 0) ^ (1 << (bit & 7));
          writePcap(path, [packet]);
          const verifier = new ReferenceVerifier(kernels, key);
          const reader = await CaptureReader.open(kernels, path);
          await reader.next();
          verifier.verify(reader.batch);
          expect(verifier.wrong).toBe(flip ? 1 : 0);
          reader.close();
          reader.free();
          verifier.free();
        },
      ),
      { numRuns: 100, seed: 4 },
    );
  });
});
