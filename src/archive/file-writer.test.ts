/** Files of records, many at a time: complete under their names, or not there. */
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { FileWriter } from "./file-writer.ts";

const root = mkdtempSync(join(tmpdir(), "hoptime-files-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const temporary = join(root, "tmp");
mkdirSync(temporary);
const writer = new FileWriter();

it("are parts of one message, and of several; a name that is taken stays as it is", async () => {
  const message = new Uint8Array(3000).map((_, i) => i);
  const parts = Array.from({ length: 300 }, (_, i) => ({
    path: join(root, `file-${i}`),
    bytes: i % 2 === 0 ? message.subarray(10 * i, 10 * i + 10) : Uint8Array.of(i & 255, 1, 2),
  }));
  writeFileSync(join(root, "file-7"), "there before");
  const written = await writer.write(temporary, parts);
  expect(written.map((w) => w.published)).toEqual(parts.map((_, i) => i !== 7));
  for (const [i, { path, bytes }] of parts.entries())
    if (i !== 7) expect(new Uint8Array(readFileSync(path))).toEqual(new Uint8Array(bytes));
  expect(readFileSync(join(root, "file-7"), "utf8")).toBe("there before");
  expect(readdirSync(temporary)).toEqual([]);
});

it("wait under their temporary name where the folder is gone", async () => {
  const path = join(root, "gone", "file");
  const [one] = await writer.write(temporary, [{ path, bytes: Uint8Array.of(1, 2, 3) }]);
  expect(one?.published).toBeNull();
  expect(new Uint8Array(readFileSync(one?.temporary ?? ""))).toEqual(Uint8Array.of(1, 2, 3));
  expect(existsSync(path)).toBe(false);
  rmSync(one?.temporary ?? "");
});

it("leave nothing behind where they cannot be written", async () => {
  const nowhere = join(root, "no-such-folder");
  await expect(
    writer.write(nowhere, [{ path: join(root, "x"), bytes: Uint8Array.of(1) }]),
  ).rejects.toMatchObject({ code: "ENOENT" });
  expect(existsSync(join(root, "x"))).toBe(false);
});
