import { readFileSync } from "node:fs";
import { Worker } from "node:worker_threads";
import { transformSync } from "esbuild";
import { describe, expect, it } from "vitest";
import { endingFlags, endThread } from "./ending.ts";

const source = readFileSync(new URL("./ending.ts", import.meta.url), "utf8");
const { code } = transformSync(source, { loader: "ts", format: "cjs" });
/** A thread that does nothing but uninterruptible work. `seen[0]`: whether it is in such work; `seen[1]`: how many times it completed some. */
const PROGRAM = `${code}
const { flags, seen } = require("node:worker_threads").workerData;
mayBeEnded(flags);
for (;;)
  uncut(() => {
    Atomics.store(seen, 0, 1);
    for (let i = 0; i < 20000; i++) Math.sqrt(i);
    Atomics.store(seen, 0, 0);
    Atomics.add(seen, 1, 1);
  });`;

describe("a thread that is ended", () => {
  it("is never within what must not be cut off", async () => {
    for (let i = 0; i < 10; i++) {
      const [flags, seen] = [endingFlags(), new Int32Array(new SharedArrayBuffer(8))];
      const thread = new Worker(PROGRAM, { eval: true, workerData: { flags, seen } });
      while (Atomics.load(seen, 1) < 10) await new Promise((resolve) => setTimeout(resolve, 1));
      await endThread(thread, flags);
      expect(seen[0]).toBe(0);
    }
  });

  it("is ended where it does nothing, or is not there", async () => {
    const thread = new Worker("setInterval(() => {}, 1000)", { eval: true });
    await endThread(thread, endingFlags());
    expect(thread.threadId).toBe(-1);
    await endThread(null, endingFlags());
  });
});
