import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { makeDirectory } from "./directory.ts";

const root = mkdtempSync(join(tmpdir(), "hoptime-directory-"));
afterAll(() => rmSync(root, { recursive: true }));

it("parents are made too, and the topmost new one is told", () => {
  expect(makeDirectory(join(root, "a", "b", "c"))).toBe(join(root, "a"));
  expect(makeDirectory(join(root, "a", "b", "d"))).toBe(join(root, "a", "b", "d"));
  expect(makeDirectory(join(root, "a", "b"))).toBeUndefined();
});

it("a file in the way is an error", () => {
  const file = join(root, "file");
  writeFileSync(file, "");
  expect(() => makeDirectory(file)).toThrow("EEXIST");
  expect(() => makeDirectory(join(file, "below"))).toThrow("ENOTDIR");
});

it.skipIf(!existsSync("/proc/self"))(
  "where no folder can be made it says so instead of trying for ever",
  () => {
    expect(() => makeDirectory("/proc/hoptime/records")).toThrow("ENOENT");
  },
);
