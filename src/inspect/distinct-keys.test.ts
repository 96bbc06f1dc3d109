import { expect, test } from "vitest";
import { Random } from "../base/random.ts";
import { DistinctKeys, keyOf } from "./distinct-keys.ts";

test("keys that occur once are those that a table counts", () => {
  const random = new Random(3);
  for (const different of [1, 50, 20_000, 1e9]) {
    const keys = new DistinctKeys();
    const table = new Map<number, number>();
    for (let i = 0; i < 30_000; i++) {
      const key = Math.floor(random.float() * different);
      keys.add(key);
      table.set(key, (table.get(key) ?? 0) + 1);
    }
    expect(keys.count).toBe(30_000);
    expect(keys.once()).toBe([...table.values()].filter((n) => n === 1).length);
  }
  expect(new DistinctKeys().once()).toBe(0);
});

test("three words make different keys where one of them differs by a bit", () => {
  const keys = new DistinctKeys();
  for (let a = 0; a < 60; a++)
    for (let b = 0; b < 60; b++)
      for (let c = 0; c < 60; c++) keys.add(keyOf(0x0a00_0000 + a, 0xc0a8_0000 + (b << 8), (c << 16) | 6));
  expect(keys.once()).toBe(60 ** 3);
});
