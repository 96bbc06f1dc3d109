/** Identical packets: paired by the delay of the others, or not at all. The truth is known from how the streams are made. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { byTime, run, sums } from "../../tests/support/identical-packets.ts";
import { type Packet, runMatcher } from "../../tests/support/run-matcher.ts";
import { Random } from "../base/random.ts";

const MS = 1e6;

interface Traffic {
  seconds: number;
  /** Distinct packets per second, and identical ones. */
  distinct: number;
  beats: number;
  delayNs: (random: Random) => number;
  lost?: number;
  copied?: number;
  missing?: number;
}

/** Distinct packets of flow 1, and identical packets of flow 2. */
function traffic(seed: number, t: Traffic) {
  const random = new Random(seed);
  const before: Packet[] = [];
  const after: Packet[] = [];
  const truth = { lost: 0, copies: 0, appeared: 0, matched: 0, sumNs: 0 };
  const send = (timeNs: number, digest: number, flow: number) => {
    const delay = t.delayNs(random);
    const lost = random.float() < (t.lost ?? 0);
    const missing = random.float() < (t.missing ?? 0);
    const edge = timeNs < 20 * MS || timeNs > t.seconds * 1e9 - 20 * MS;
    const seen = edge || !missing;
    if (seen) before.push({ timeNs, digest, flow });
    if (lost && !edge) {
      if (seen) truth.lost++;
      return;
    }
    after.push({ timeNs: timeNs + delay, digest, flow });
    if (!seen) truth.appeared++;
    else {
      truth.matched++;
      truth.sumNs += delay;
    }
    if (random.float() < (t.copied ?? 0) && !edge) {
      after.push({ timeNs: timeNs + delay + 20_000, digest, flow });
      truth.copies++;
    }
  };
  const n = t.seconds * t.distinct;
  for (let i = 0; i < n; i++) send(((i + random.float()) / t.distinct) * 1e9, 10 + i, 1);
  for (let i = 0; i < t.seconds * t.beats; i++) send(((i + 0.5) / t.beats) * 1e9, 1, 2);
  return { before: byTime(before), after: byTime(after), truth };
}

const about3ms = (random: Random) => 3 * MS + 0.3 * MS * random.float();

describe("packets that look alike", () => {
  test.each([
    ["copies at the second point", { copied: 0.05 }],
    ["loss", { lost: 0.01 }],
    ["packets that the first point missed", { missing: 0.005 }],
    ["all of it", { copied: 0.05, lost: 0.02, missing: 0.01 }],
  ])("heartbeats do not run away behind %s", (_, faults) => {
    for (const seed of [1, 2, 3]) {
      const { before, after, truth } = traffic(seed, {
        seconds: 20,
        distinct: 1000,
        beats: 10,
        delayNs: about3ms,
        ...faults,
      });
      const matcher = run(before, after);
      const total = sums(matcher);
      expect(total.matched).toBe(truth.matched);
      expect(total.onlyBefore).toBe(truth.lost);
      expect(total.onlyAfter).toBe(truth.copies + truth.appeared);
      expect(total.ambiguous).toBe(0);
      expect(matcher.total(1).delay!.meanNs).toBeCloseTo(truth.sumNs / truth.matched, -3);
      expect(matcher.total(1).delay!.maxNs).toBeLessThan(3.31 * MS);
      expect(matcher.total(1).delay!.minNs).toBeGreaterThan(2.99 * MS);
    }
  });

  test("an identification that wraps does not make a lost packet's delay the time of the wrap", () => {
    const random = new Random(4);
    const before: Packet[] = [];
    const after: Packet[] = [];
    let lost = 0;
    for (let i = 0; i < 60_000; i++) {
      const timeNs = i * 0.2 * MS;
      // 16,384 packets until the identification wraps: 3.28 s.
      const packet = { digest: i % 16_384, flow: 1 };
      before.push({ ...packet, timeNs });
      if (i > 100 && i < 59_900 && random.float() < 0.01) lost++;
      else after.push({ ...packet, timeNs: timeNs + about3ms(random) });
    }
    const matcher = run(before, byTime(after));
    expect(sums(matcher)).toMatchObject({ onlyBefore: lost, onlyAfter: 0, ambiguous: 0 });
    expect(matcher.total(1).delay!.maxNs).toBeLessThan(3.31 * MS);
  });

  test.each([
    ["the second point begins later and ends earlier", 0.6, 0.6],
    ["both run for the same time", 0, 0],
  ])(
    "nor does it pair a packet that the first point missed with one of another wrap: %s",
    (_, head, tail) => {
      for (const seed of [11, 12, 13]) {
        const random = new Random(seed);
        const seconds = 6;
        const before: Packet[] = [];
        const after: Packet[] = [];
        let matched = 0;
        for (let i = 0; i < seconds * 1000; i++) {
          // Every second packet is one of 700: equal ones are 1.4 s apart.
          const packet = i % 2 === 0 ? { digest: (i / 2) % 700, flow: 1 } : { digest: 10_000 + i, flow: 2 };
          const timeNs = i * MS;
          const arrivalNs = timeNs + about3ms(random);
          const missed = random.float() < 0.05;
          const lost = random.float() < 0.05;
          const running = arrivalNs > head * 1e9 && arrivalNs < (seconds - tail) * 1e9;
          if (!missed) before.push({ ...packet, timeNs });
          if (!lost && running) after.push({ ...packet, timeNs: arrivalNs });
          if (!missed && !lost && running) matched++;
        }
        const matcher = run(before, byTime(after));
        const total = sums(matcher);
        const { delay } = matcher.total(1);
        expect(delay!.minNs).toBeGreaterThan(2.99 * MS);
        expect(delay!.maxNs).toBeLessThan(3.31 * MS);
        expect(Math.abs(total.matched - matched)).toBeLessThanOrEqual(total.ambiguous);
        expect(total.ambiguous).toBeLessThan(0.02 * matched);
      }
    },
  );

  test("what may be one of several is counted, and its delay is not", () => {
    // Identical packets every millisecond, delays of 1 to 20 ms: which one is lost cannot be known.
    const { before, after, truth } = traffic(5, {
      seconds: 5,
      distinct: 2000,
      beats: 1000,
      delayNs: (random) => MS + 19 * MS * random.float(),
      lost: 0.05,
    });
    const matcher = run(before, after);
    const total = sums(matcher);
    expect(total.matched + total.onlyBefore).toBe(before.length);
    expect(Math.abs(total.onlyBefore - truth.lost)).toBeLessThan(0.01 * before.length);
    expect(total.ambiguous).toBeGreaterThan(0.9 * matcher.flow(1).matched);
    const distinct = matcher.flow(0);
    expect(distinct.ambiguous).toBe(0);
    expect(Math.abs(matcher.total(1).delay!.meanNs - distinct.delay!.meanNs)).toBeLessThan(0.05 * MS);
  });

  test("where all packets look alike and none is lost, their order identifies them", () => {
    const before = [0, 10, 20].map((timeNs) => ({ timeNs: timeNs * MS, digest: 1, flow: 1 }));
    const after = [105, 112, 119].map((timeNs) => ({ timeNs: timeNs * MS, digest: 1, flow: 1 }));
    const matcher = run(before, after);
    expect(matcher.flow(0).delay).toMatchObject({ count: 3, minNs: 99 * MS, maxNs: 105 * MS });
  });

  test("where all packets look alike their delays are known if they are further apart than these differ by", () => {
    const random = new Random(14);
    const beats = (gapNs: number) => {
      const before = Array.from({ length: 400 }, (_, i) => ({ timeNs: i * gapNs, digest: 1, flow: 1 }));
      return {
        before,
        after: byTime(before.map((p) => ({ ...p, timeNs: p.timeNs + MS + MS * random.float() }))),
      };
    };
    const slow = beats(10 * MS);
    expect(sums(run(slow.before, slow.after))).toMatchObject({ matched: 400, ambiguous: 0 });
    // These overtake each other: which is which cannot be known.
    const fast = beats(0.1 * MS);
    const matcher = run(fast.before, fast.after);
    expect(sums(matcher)).toMatchObject({ matched: 400, onlyBefore: 0, onlyAfter: 0 });
    expect(sums(matcher).ambiguous).toBeGreaterThan(390);
  });

  test("equal packets at a steady pace are no mirror's copies", () => {
    const before = Array.from({ length: 4000 }, (_, i) => ({ timeNs: i * 0.8 * MS, digest: 1, flow: 1 }));
    const after = before.map((p) => ({ ...p, timeNs: p.timeNs + 3 * MS }));
    expect(sums(run(before, after))).toMatchObject({
      matched: 4000,
      mirrored: 0,
      onlyBefore: 0,
      onlyAfter: 0,
    });
  });

  test("a mirror that gives each packet of the first point twice makes no loss", () => {
    const random = new Random(6);
    const before: Packet[] = [];
    const after: Packet[] = [];
    let lost = 0;
    for (let i = 0; i < 5000; i++) {
      const packet = { digest: i, flow: i % 7 };
      before.push({ ...packet, timeNs: i * MS }, { ...packet, timeNs: i * MS + 4000 });
      if (i > 50 && i < 4900 && i % 100 === 0) lost++;
      else after.push({ ...packet, timeNs: i * MS + about3ms(random) });
    }
    const matcher = run(before, byTime(after));
    const total = sums(matcher);
    expect(total).toMatchObject({ matched: 5000 - lost, mirrored: 5000, onlyBefore: lost, ambiguous: 0 });
    expect(matcher.total(1).delay!.minNs).toBeGreaterThan(2.9 * MS);
  });

  test.each([0.05, 0.3])("nor does one that gives %d of them twice", (share) => {
    const random = new Random(9);
    const [before, after]: Packet[][] = [[], []];
    let [lost, copies] = [0, 0];
    for (let i = 0; i < 5000; i++) {
      const packet = { digest: i, flow: i % 7 };
      before!.push({ ...packet, timeNs: i * MS });
      if (random.float() < share && ++copies) before!.push({ ...packet, timeNs: i * MS + 4000 });
      if (i > 50 && i < 4900 && i % 100 === 0) lost++;
      else after!.push({ ...packet, timeNs: i * MS + about3ms(random) });
    }
    const total = sums(run(before!, byTime(after!)));
    expect(total).toMatchObject({ matched: 5000 - lost, mirrored: copies, onlyBefore: lost, ambiguous: 0 });
  });

  test("packets that are lost and sent again at once are lost", () => {
    const random = new Random(10);
    const [before, after]: Packet[][] = [[], []];
    let lost = 0;
    for (let i = 0; i < 5000; i++) {
      const packet = { digest: i, flow: i % 7 };
      const gone = random.float() < 0.05;
      before!.push({ ...packet, timeNs: i * 2 * MS });
      if (gone) before!.push({ ...packet, timeNs: i * 2 * MS + 0.8 * MS });
      if (gone) lost++;
      after!.push({ ...packet, timeNs: i * 2 * MS + (gone ? 0.8 * MS : 0) + about3ms(random) });
    }
    const total = sums(run(before!, byTime(after!)));
    expect(total).toMatchObject({ matched: 5000, mirrored: 0, onlyBefore: lost });
  });

  test("nor does one that gives each packet of the other direction twice at the second point", () => {
    const random = new Random(8);
    const before: Packet[] = [];
    const after: Packet[] = [];
    let [sent, lost] = [0, 0];
    for (let i = 0; i < 5000; i++) {
      const packet = { digest: i, flow: i % 7 };
      // In the reverse direction each is at AFTER twice; forward, it arrives there twice.
      const back = i % 7 > 3;
      const gone = i > 50 && i < 4900 && i % 100 === 0;
      const [from, to] = back ? [after, before] : [before, after];
      from.push({ ...packet, timeNs: i * MS });
      if (back) from.push({ ...packet, timeNs: i * MS + 4000 });
      if (back) sent++;
      if (gone && back) lost++;
      const timeNs = i * MS + about3ms(random);
      if (!gone) to.push({ ...packet, timeNs });
      if (!gone && !back) to.push({ ...packet, timeNs: timeNs + 4000 });
    }
    const matcher = run(byTime(before), byTime(after), 0);
    const { reverse } = matcher.flows.survey(true);
    expect(reverse).toMatchObject({ matched: sent - lost, mirrored: sent, appeared: lost, duplicates: 0 });
  });

  test("alike packets of the other direction are paired in theirs", () => {
    const random = new Random(7);
    const before: Packet[] = [];
    const after: Packet[] = [];
    for (let i = 0; i < 20_000; i++) {
      const timeNs = i * MS;
      const forward = i % 2 === 0;
      const packet =
        i % 50 < 2
          ? { digest: forward ? 1 : 2, flow: forward ? 3 : 4 }
          : { digest: 10 + i, flow: 1 + (i % 2) };
      const lost = i > 100 && i < 19_900 && random.float() < 0.02;
      (forward ? before : after).push({ ...packet, timeNs });
      if (!lost) (forward ? after : before).push({ ...packet, timeNs: timeNs + about3ms(random) });
    }
    const matcher = run(byTime(before), byTime(after), 0);
    for (const direction of [1, 2] as const) {
      const { delay } = matcher.total(direction);
      expect(delay!.minNs).toBeGreaterThan(2.99 * MS);
      expect(delay!.maxNs).toBeLessThan(3.31 * MS);
    }
    const survey = matcher.flows.survey(true);
    expect(survey.forward.lost).toBe(
      before.length + after.length > 0 ? survey.forward.sent - survey.forward.matched : 0,
    );
    expect(survey.reverse.appeared).toBe(survey.reverse.received - survey.reverse.matched);
  });

  test("a copy made on the way back is not the arrival of the next packet, whatever delays the other direction has", () => {
    const random = new Random(7);
    const [before, after]: [Packet[], Packet[]] = [[], []];
    for (let i = 0; i < 2000; i++) {
      const timeNs = i * MS;
      before.push({ timeNs, digest: 10_000 + i, flow: 1 });
      after.push({ timeNs: timeNs + (25 + 55 * random.float()) * MS, digest: 10_000 + i, flow: 1 });
      after.push({ timeNs, digest: 20_000 + i, flow: 2 });
      before.push({ timeNs: timeNs + (28 + random.float()) * MS, digest: 20_000 + i, flow: 2 });
    }
    // Two identical packets each 73 ms apart: the copy of the first one arrives 45 ms before the second one is sent.
    for (let i = 0; i < 19; i++) {
      const [first, second] = [i * 100 * MS + 2500, i * 100 * MS + 73 * MS + 2500];
      after.push({ timeNs: first, digest: i, flow: 3 }, { timeNs: second, digest: i, flow: 3 });
      for (const timeNs of [first + 28.4 * MS, first + 28.4 * MS + 25_000, second + 28.5 * MS])
        before.push({ timeNs, digest: i, flow: 3 });
    }
    const options = { windowNs: 100 * MS, epochNs: 1e9, thresholdNs: 0 };
    const matcher = runMatcher(byTime(before), byTime(after), options);
    expect(matcher.flows.survey(true).reverse).toMatchObject({ matched: 2038, duplicates: 19 });
    expect(matcher.total(2).delay?.minNs).toBeGreaterThanOrEqual(28 * MS);
  });

  test("a first pair is marked if an identical packet follows its own partner and is not matched", () => {
    // A lost packet, and 50 ms later an identical one: its arrival is read before it, and takes the lost one.
    const [before, after]: [Packet[], Packet[]] = [[], []];
    for (let i = 0; i < 200; i++) {
      after.push({ timeNs: i * 10 * MS, digest: 10 + i, flow: 1 });
      before.push({ timeNs: i * 10 * MS + (20 + (i % 4) * 10) * MS, digest: 10 + i, flow: 1 });
    }
    after.push({ timeNs: 951 * MS, digest: 1, flow: 2 }, { timeNs: 1001 * MS, digest: 1, flow: 2 });
    before.push({ timeNs: 1004 * MS, digest: 1, flow: 2 });
    const options = { windowNs: 100 * MS, epochNs: 1e9, thresholdNs: 0 };
    const opening = [...runMatcher(byTime(before), byTime(after), options).opening()];
    const wrong = opening.filter(({ differenceNs }) => differenceNs === -53 * MS);
    expect(wrong).toMatchObject([{ again: true, otherNs: -3 * MS }]);
  });

  test("equal packets take no more time each however many there are", () => {
    const alike = (n: number) => {
      const before = Array.from({ length: n }, (_, i) => ({ timeNs: i * 1000, digest: 1, flow: 1 }));
      const after = before.map((p) => ({ ...p, timeNs: p.timeNs + MS }));
      const start = process.cpuUsage();
      const matcher = run(before, after);
      const { user } = process.cpuUsage(start);
      expect(sums(matcher).matched).toBe(n);
      return user / n;
    };
    alike(10_000);
    const few = Math.min(alike(10_000), alike(10_000), alike(10_000));
    const many = Math.min(alike(160_000), alike(160_000));
    // Quadratic time would be sixteen times as much.
    expect(many).toBeLessThan(6 * few);
  });

  test("every packet is accounted for once, whatever is alike", () => {
    const list = fc.array(
      fc.record({
        gapUs: fc.integer({ min: 1, max: 6000 }),
        fate: fc.constantFrom("pass", "pass", "pass", "pass", "pass", "lost", "copied", "foreign"),
        lateUs: fc.integer({ min: 0, max: 300 }),
        digest: fc.option(fc.integer({ min: 0, max: 20 }), { freq: 3 }),
      }),
      { maxLength: 400 },
    );
    fc.assert(
      fc.property(list, (packets) => {
        const before: Packet[] = [];
        const after: Packet[] = [];
        let now = 0;
        for (const [i, { gapUs, fate, lateUs, digest }] of packets.entries()) {
          now += gapUs * 1000;
          const p = { digest: digest ?? 1000 + i, flow: i % 5 };
          if (fate !== "foreign") before.push({ ...p, timeNs: now });
          if (fate !== "lost") after.push({ ...p, timeNs: now + 900_000 + lateUs * 1000 });
          if (fate === "copied") after.push({ ...p, timeNs: now + 950_000 + lateUs * 1000 });
        }
        const total = sums(run(before, byTime(after)));
        expect(total.matched + total.onlyBefore + total.mirrored).toBe(before.length);
        expect(total.matched + total.onlyAfter).toBe(after.length);
      }),
      { numRuns: 150, seed: 5 },
    );
  });
});
