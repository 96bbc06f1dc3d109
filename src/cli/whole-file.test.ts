import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeEach, describe, expect, test, vi } from "vitest";
import { writeFile, writeWhole } from "./whole-file.ts";

const folder = mkdtempSync(join(tmpdir(), "hoptime-whole-file-"));
const path = join(folder, "report.html");
afterAll(() => rmSync(folder, { recursive: true, force: true }));
beforeEach(() => {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder);
});

describe("a file is there whole or not at all", () => {
  test("it replaces the former one, behind a link too", async () => {
    writeFileSync(path, "former");
    const link = join(folder, "link.html");
    symlinkSync(path, link);
    await writeFile(link, "new");
    expect(readFileSync(path, "utf8")).toBe("new");
    expect(readdirSync(folder).sort()).toEqual(["link.html", "report.html"]);
  });

  test("a failure leaves the former one and no part of the new one", async () => {
    writeFileSync(path, "former");
    const failing = writeWhole(path, (to) => {
      writeFileSync(to, "half");
      throw new Error("gone wrong");
    });
    await expect(failing).rejects.toThrow("gone wrong");
    expect(readFileSync(path, "utf8")).toBe("former");
    expect(readdirSync(folder)).toEqual(["report.html"]);
  });

  test("another process that writes it at the same time does not get in the way", async () => {
    await writeWhole(path, (to) => {
      writeFileSync(to, "ours");
      // Another process that finishes in the meantime.
      const pid = vi.spyOn(process, "pid", "get").mockReturnValue(process.pid + 1);
      const other = writeFile(path, "theirs");
      pid.mockRestore();
      return other;
    });
    expect(readFileSync(path, "utf8")).toBe("ours");
    expect(readdirSync(folder)).toEqual(["report.html"]);
  });

  test("a signal removes what was written and ends the command", async () => {
    const others = process.listeners("exit");
    // `exit` is mocked, so the process continues; only the exit listeners added here are called.
    const exit = vi.spyOn(process, "exit").mockImplementation(((code: number) => {
      for (const own of process.listeners("exit").filter((listener) => !others.includes(listener))) own(code);
    }) as never);
    let seen: string[] = [];
    const writing = writeWhole(path, (to) => {
      writeFileSync(to, "half");
      process.emit("SIGTERM");
      seen = readdirSync(folder);
    });
    // The partial file is gone, so renaming fails.
    await expect(writing).rejects.toThrow(/cannot be written/);
    expect(exit).toHaveBeenCalledWith(143);
    expect(seen).toEqual([]);
    expect(process.listenerCount("SIGTERM")).toBe(0);
    exit.mockRestore();
  });

  test("a folder that is not there is one clear line", async () => {
    await expect(writeFile(join(folder, "none", "x.html"), "x")).rejects.toThrow(
      /none\/x\.html: cannot be written: no such file or directory/,
    );
  });
});
