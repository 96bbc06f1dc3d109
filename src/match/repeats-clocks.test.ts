/** Identical packets beside clocks that were set, and flows of the other direction. The truth is known from how the streams are made. */
import { expect, test } from "vitest";
import { byTime, run, sums } from "../../tests/support/identical-packets.ts";
import { type Packet, runMatcher } from "../../tests/support/run-matcher.ts";

const MS = 1e6;

test("copies of packets do not leave packets behind a clock step out of the reordering", () => {
  const before: Packet[] = [];
  const after: Packet[] = [];
  // AFTER's clock is set by +1.5 s, so its packets behind the step come after the end of BEFORE.
  const shown = (ns: number) => (ns < 500 * MS ? ns : ns + 1500 * MS);
  for (let i = 0; i < 700; i++) {
    const sentNs = i * 2 * MS;
    // Every second packet is overtaken by the next one.
    before.push({ timeNs: sentNs, digest: i, flow: 1 });
    after.push({ timeNs: shown(sentNs + (i % 2 === 0 ? 18 : 15) * MS), digest: i, flow: 1 });
    // Packets of the other direction; some arrive twice.
    const arrivedNs = sentNs + 16 * MS;
    const back = { digest: 10_000 + i, flow: 2 };
    after.push({ ...back, timeNs: shown(sentNs) });
    before.push({ ...back, timeNs: arrivedNs });
    if (i % 100 === 60) before.push({ ...back, timeNs: arrivedNs + 20_000 });
  }
  const matcher = run(byTime(before), byTime(after), 0);
  expect(matcher.total(1)).toMatchObject({ matched: 700, reordered: 350 });
  expect(matcher.total(2).matched).toBe(700);
});

test("a heartbeat before a clock was set back is matched, though its arrival is shown after all others", () => {
  const before: Packet[] = [];
  const after: Packet[] = [];
  const shown = (ns: number) => ns - (ns < 10 * MS ? 5500 : 6900) * MS;
  const send = (packet: Packet) => {
    before.push(packet);
    after.push({ ...packet, timeNs: shown(packet.timeNs + 0.2 * MS) });
  };
  for (let i = 0; i < 1000; i++) {
    if (i % 200 === 5) send({ timeNs: i * MS, digest: 1, flow: 2 });
    else if (i > 10) send({ timeNs: i * MS, digest: 10 + i, flow: 1 });
  }
  const total = sums(run(before, after));
  expect(total).toMatchObject({ matched: 990, onlyBefore: 0, onlyAfter: 0 });
});

test("two identical packets are no pair if the one that arrived was sent before the other capture began, and earlier", () => {
  const before: Packet[] = [];
  const after: Packet[] = [];
  const send = (ms: number, digest: number, flow: number, lost = false) => {
    if (ms >= 300) before.push({ timeNs: ms * MS, digest, flow });
    if (!lost) after.push({ timeNs: (ms + 3) * MS, digest, flow });
  };
  for (let i = 0; i < 1500; i++) {
    if (i === 178) send(i, 1, 1);
    else if (i === 1165) send(i, 1, 1, true);
    else send(i, i === 400 || i === 402 ? 2 : 10 + i, 1);
  }
  const total = sums(run(before, after));
  expect(total).toMatchObject({ matched: 1199, ambiguous: 0, onlyBefore: 1, onlyAfter: 300 });
});

test("a flow that goes the other way shows its direction, though its packets are earlier than all others", () => {
  const before: Packet[] = [];
  const after: Packet[] = [];
  for (let i = 0; i < 400; i++) {
    const timeNs = i * 5 * MS;
    before.push({ timeNs, digest: 10 + i, flow: 1 });
    after.push({ timeNs: timeNs + 2666 * MS + (i % 7) * 100_000, digest: 10 + i, flow: 1 });
    if (i < 100 || i % 25 !== 9) continue;
    // AFTER's clock is 2.65 s ahead. Some of the flow's packets are identical.
    const digest = i % 100 === 9 ? 1 : 1000 + i;
    before.push({ timeNs: timeNs + 1 * MS, digest, flow: 2 });
    after.push({ timeNs: timeNs + 2626 * MS, digest, flow: 2 });
  }
  const matcher = run(byTime(before), byTime(after));
  const { forward } = matcher.flows.survey(true);
  expect(forward.matched).toBe(412);
  expect(sums(matcher).ambiguous).toBeLessThan(8);
});

/** The last two packets are behind a clock that was set back by 2.4 s, and identical to earlier ones. */
function setBack(n: number, digestOf: (i: number) => number, gapNs: number, waitNs: number) {
  const before: Packet[] = [];
  const after: Packet[] = [];
  for (let i = 0; i < n; i++) {
    const last = i > n - 3;
    const timeNs = i * gapNs + (last ? waitNs : 0);
    const packet = { digest: digestOf(i), flow: 1 };
    before.push({ ...packet, timeNs });
    after.push({ ...packet, timeNs: timeNs + 13 * MS - (last ? 2400 * MS : 0) });
  }
  return { before, after };
}

test("packets behind a clock that was set back are no copies of identical ones that came before", () => {
  const { before, after } = setBack(540, (i) => i % 100, 17.5 * MS, 700 * MS);
  const matcher = runMatcher(before, after, { windowNs: 4e9, epochNs: 1e9 });
  expect(sums(matcher)).toMatchObject({ matched: 540, onlyBefore: 0, onlyAfter: 0 });
});

test("a clock that was set back is noticed within the rows of one call", () => {
  const { before, after } = setBack(40, (i) => (i < 38 ? i : i - 8), 200 * MS, 0);
  const matcher = runMatcher(before, after, { windowNs: 80e9, epochNs: 1e9 });
  expect(sums(matcher)).toMatchObject({ matched: 40, onlyBefore: 0, onlyAfter: 0 });
});
