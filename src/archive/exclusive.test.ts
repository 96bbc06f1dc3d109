import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { lockDirectory } from "./exclusive.ts";

const root = mkdtempSync(join(tmpdir(), "hoptime-exclusive-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const fresh = (name: string) => {
  const directory = join(root, name);
  mkdirSync(directory, { recursive: true });
  return directory;
};

it("refuses a second holder by name, and lets it in once the first has gone", async () => {
  const directory = fresh("a");
  const lock = await lockDirectory(directory, "collector");
  await expect(lockDirectory(directory, "collector")).rejects.toThrow(
    `${directory}: another collector is using it`,
  );
  await lock.release();
  await (await lockDirectory(directory, "collector")).release();
});

it("works in directories with names longer than a socket's may be", async () => {
  const directory = fresh(join("long".repeat(20), "long".repeat(20)));
  const lock = await lockDirectory(directory, "collector");
  await expect(lockDirectory(directory, "collector")).rejects.toThrow("another collector");
  await lock.release();
});

it("is free after kill -9 of its holder, and held until then, seen from another process", async () => {
  const directory = fresh("b");
  // As `lockDirectory` holds it: a listening socket.
  const program = `require("net").createServer().listen(${JSON.stringify(join(directory, ".lock"))}, () => console.log("held"))`;
  const holder = spawn(process.execPath, ["-e", program], { stdio: ["ignore", "pipe", "inherit"] });
  await once(holder.stdout, "data");
  await expect(lockDirectory(directory, "collector")).rejects.toThrow("another collector");
  holder.kill("SIGKILL");
  await once(holder, "exit");
  expect(existsSync(join(directory, ".lock"))).toBe(true);
  await (await lockDirectory(directory, "collector")).release();
});

it("one of many that start at once gets it, also over a lock that was left behind", async () => {
  for (let round = 0; round < 5; round++) {
    const directory = fresh(`c${round}`);
    const left = spawn(
      process.execPath,
      [
        "-e",
        `require("net").createServer().listen(${JSON.stringify(join(directory, ".lock"))}, () => process.kill(process.pid, "SIGKILL"))`,
      ],
      { stdio: "ignore" },
    );
    await once(left, "exit");
    const tries = await Promise.allSettled(
      Array.from({ length: 8 }, () => lockDirectory(directory, "collector")),
    );
    const got = tries.flatMap((t) => (t.status === "fulfilled" ? [t.value] : []));
    expect(got).toHaveLength(1);
    await got[0]?.release();
  }
});

it("a guard that was left behind does not block for ever", async () => {
  const directory = fresh("d");
  writeFileSync(join(directory, ".lock-guard"), "");
  const old = new Date(Date.now() - 60_000);
  utimesSync(join(directory, ".lock-guard"), old, old);
  await (await lockDirectory(directory, "collector")).release();
});
