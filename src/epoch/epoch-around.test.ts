import { expect, it } from "vitest";
import { Random } from "../base/random.ts";
import { epochAround } from "./epoch-around.ts";

it("finds an epoch that no cut of the clock divides, hardly longer than the captures", () => {
  const random = new Random(3);
  for (let i = 0; i < 200; i++) {
    const firstNs = 1_700_000_000_000_000_000n + BigInt(Math.floor(random.float() * 1e15));
    const lasts = Math.floor(10 ** (6 + 6 * random.float()));
    const before = { firstNs, lastNs: firstNs + BigInt(lasts) };
    const after = { firstNs: firstNs + 20_000n, lastNs: before.lastNs + 20_000n };
    const length = epochAround([before, after]);
    expect(length % 1e6).toBe(0);
    expect(firstNs / BigInt(length)).toBe(after.lastNs / BigInt(length));
    expect(length).toBeLessThan(2e6 + 2 * (lasts + 20_000) + 20e6);
  }
});
