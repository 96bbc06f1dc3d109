/** The kernels write numbers as JavaScript does. Whole rows: tests/e2e/compare-texts.test.ts. */
import { expect, test } from "vitest";
import { Kernels } from "../base/kernels.ts";
import { Random } from "../base/random.ts";
import { storePowers } from "./flow-texts.ts";

const kernels = new Kernels();
const powers = storePowers(kernels);
const out = kernels.alloc(64);

/** Returns null if the number is not one that the kernels write. */
function written(value: number): string | null {
  const n = kernels.call.numberText(value, powers, out) >>> 0;
  return n === 0 ? null : Buffer.from(kernels.u8.subarray(out, out + n)).toString("latin1");
}

test("numbers are written as JavaScript writes them, of every magnitude that delays have", () => {
  const random = new Random(5);
  for (let i = 0; i < 200_000; i++) {
    // 2^-19 to 2^53, with random bits.
    const value = (1 + random.float()) * 2 ** (-19 + (random.uint32() % 72)) * (i % 5 === 0 ? -1 : 1);
    if (written(value) !== String(value)) expect(written(value)).toBe(String(value));
  }
});

test("numbers with few digits, of halves, powers of two and the ends of the range", () => {
  const random = new Random(6);
  const values = [
    0,
    -0,
    0.1,
    0.5,
    1 / 3,
    1e-6,
    2 ** 53 - 1,
    2 ** 52 + 0.5,
    2 ** 52 - 0.5,
    -1,
    -0.000123,
    123456.789,
  ];
  for (let e = -19; e < 53; e++)
    values.push(2 ** e, -(2 ** e), 2 ** e * (1 + Number.EPSILON), 2 ** e * (1 - Number.EPSILON / 2));
  for (let i = 0; i < 50_000; i++) values.push((random.uint32() % 1e6) / 10 ** (random.uint32() % 9) || 1);
  for (let i = 0; i < 10_000; i++) values.push(random.uint32() / 2);
  for (const value of values.filter((v) => v === 0 || Math.abs(v) >= 1e-6))
    if (written(value) !== String(value)) expect(written(value)).toBe(String(value));
});

test("what is out of the range is left to others", () => {
  for (const value of [2 ** 53, 1e300, 9e-7, Number.NaN, Number.POSITIVE_INFINITY, Number.MIN_VALUE])
    expect(written(value)).toBeNull();
});
