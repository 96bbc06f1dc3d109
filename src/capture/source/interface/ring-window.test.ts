import { closeSync, mkdtempSync, openSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { Kernels } from "../../../base/kernels.ts";
import { findLibc } from "./libc.ts";
import { RingWindow } from "./ring-window.ts";

const libc = process.platform === "linux" ? await findLibc() : null;
const BYTES = 1 << 20;

/** A file stands in for the ring: both are mapped the same way. */
test.skipIf(!libc)(
  "a window shows what another writes, stays when memory grows, and leaves plain memory behind",
  () => {
    if (!libc) return;
    const scratch = mkdtempSync(join(tmpdir(), "hoptime-window-"));
    const fd = openSync(join(scratch, "ring"), "w+");
    const write = (value: number) => writeSync(fd, Buffer.alloc(BYTES, value), 0, BYTES, 0);
    try {
      write(7);
      const kernels = new Kernels();
      const window = RingWindow.open(libc, kernels, fd, BYTES);
      const at = window?.address ?? 0;
      const seen = () => [kernels.u8[at], kernels.u8[at + BYTES - 1]];
      expect(at).toBeGreaterThan(0);
      expect(seen()).toEqual([7, 7]);
      write(8);
      expect(seen()).toEqual([8, 8]);
      const more = kernels.alloc(64 << 20);
      kernels.u8.fill(1, more, more + (64 << 20));
      expect(window?.address).toBe(at);
      write(9);
      expect(seen()).toEqual([9, 9]);
      window?.close();
      write(10);
      kernels.u8[at] = 3;
      expect(seen()).toEqual([3, 0]);
    } finally {
      closeSync(fd);
      rmSync(scratch, { recursive: true, force: true });
    }
  },
);

test.skipIf(!libc)("what cannot be mapped is no window, and takes no memory", () => {
  if (!libc) return;
  const kernels = new Kernels();
  const before = kernels.alloc(BYTES);
  kernels.free(before);
  expect(RingWindow.open(libc, kernels, -1, BYTES)).toBeNull();
  const after = kernels.alloc(BYTES);
  expect(Math.abs(after - before)).toBeLessThan(BYTES);
});
