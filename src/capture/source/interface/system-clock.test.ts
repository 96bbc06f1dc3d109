import { expect, test } from "vitest";
import { joinClocks } from "../clock-state.ts";
import { findLibc } from "./libc.ts";
import { SystemClock } from "./system-clock.ts";

/** struct timex as the kernel fills it: status, maximum and estimated error in µs. */
const kernel = (status: number, maximumUs: bigint, estimatedUs: bigint, returned = 0) => ({
  adjtimex(bytes: Uint8Array): number {
    const view = new DataView(bytes.buffer);
    expect(view.getUint32(0, true), "nothing is set").toBe(0);
    view.setBigInt64(24, maximumUs, true);
    view.setBigInt64(32, estimatedUs, true);
    view.setInt32(40, status, true);
    return returned;
  },
});

test("the kernel's word on the clock", () => {
  const [good, bad] = [
    new SystemClock(kernel(0x2001, 2500n, 12n)),
    new SystemClock(kernel(0x40, 16_000_000n, 16_000_000n, 5)),
  ];
  expect(good.state()).toMatchObject({
    synchronised: true,
    maximumErrorNs: 2_500_000,
    estimatedErrorNs: 12_000,
  });
  expect(bad.state()).toMatchObject({ synchronised: false, discipline: null, maximumErrorNs: 16e9 });
  expect(good.state()?.id).toBe(bad.state()?.id);
  expect(new SystemClock(kernel(0, 0n, 0n, -1)).state()).toBeNull();
});

test("over several epochs the worse state counts; of two clocks none is known", () => {
  const one = {
    id: 1n,
    synchronised: true,
    discipline: "ntp" as const,
    estimatedErrorNs: 5,
    maximumErrorNs: 50,
  };
  const two = { ...one, synchronised: false, estimatedErrorNs: 3, maximumErrorNs: 70 };
  expect(joinClocks(one, two)).toEqual({
    ...one,
    synchronised: false,
    estimatedErrorNs: 5,
    maximumErrorNs: 70,
  });
  expect(joinClocks(one, { ...one, id: 2n })?.id).toBe(0n);
  expect(joinClocks(one, undefined)).toBe(one);
});

const libc = process.platform === "linux" ? await findLibc() : null;
if (!libc) console.warn("skipped: the clock of this machine (koffi is not installed)");
test.skipIf(libc === null)("this machine's clock says something", () => {
  if (!libc) return;
  const state = new SystemClock(libc).state();
  expect(state?.id).not.toBe(0n);
  expect(state?.maximumErrorNs).toBeGreaterThanOrEqual(0);
});
