import { defineConfig } from "vitest/config";
import { FileOrder } from "./tests/support/file-order.ts";

export default defineConfig({
  test: {
    include: ["src/**/*.test.ts", "tests/**/*.test.ts"],
    // For what hangs, and long enough for a slow, busy machine: no test is judged by it.
    testTimeout: 300_000,
    hookTimeout: 300_000,
    expect: { poll: { timeout: 60_000 } },
    pool: "forks",
    // More than two processors: tests that wait for time to pass leave them idle.
    maxWorkers: 3,
    sequence: { sequencer: FileOrder },
  },
});
