import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { makeDirectory, writeFailure } from "./directory.ts";

const root = mkdtempSync(join(tmpdir(), "hoptime-directory-"));
afterAll(() => rmSync(root, { recursive: true }));

it("parents are made too, and the topmost new one is returned", () => {
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

it("a system error names its path; other errors are passed on unchanged", () => {
  const full = Object.assign(new Error("EFBIG: file too large, write"), { code: "EFBIG", syscall: "write" });
  expect((writeFailure("records", full) as Error).message).toBe("records: cannot be written: file too large");
  const bug = new Error("bug");
  expect(writeFailure("records", bug)).toBe(bug);
});
