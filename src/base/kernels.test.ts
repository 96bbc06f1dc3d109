import { describe, expect, it } from "vitest";
import { UsageError } from "./errors.ts";
import { Kernels, MemoryError, memoryError } from "./kernels.ts";

describe("kernel memory that is used up", () => {
  it("is a named failure of the caller's asking, however it shows", () => {
    const kernels = new Kernels();
    // Ask for more than fits in any case, so that the test need not fill the memory.
    expect(() => kernels.alloc(2 ** 30)).toThrow(MemoryError);
    expect(() => kernels.alloc(2 ** 30)).toThrow(/memory of the kernels \(4 GiB\) is exhausted/);
    let trapped: unknown;
    try {
      kernels.call.alloc(2 ** 30);
    } catch (error) {
      trapped = error;
    }
    expect(trapped).not.toBeInstanceOf(UsageError);
    const named = memoryError(trapped, "lds needs 3 GB", "lower columns");
    expect(named).toMatchObject({ code: "out-of-memory", hint: "lower columns" });
    expect(named?.message).toMatch(/exhausted: lds needs 3 GB$/);
    // Memory allocated before keeps working.
    expect(kernels.alloc(1000)).toBeGreaterThan(0);
  });

  it("is not what other failures are called", () => {
    expect(memoryError(new RangeError("unreachable"))).toBeNull();
    expect(memoryError(new Error("anything"))).toBeNull();
  });
});
