import { defineConfig } from "vitest/config";
import { FileOrder, REAL_TIME } from "./tests/support/file-order.ts";

/** They measure their own process's memory, or take its signals. */
const ALONE = ["src/epoch/mutations.test.ts", "src/query/segment/top-flows.test.ts", "src/cli/*.test.ts"];

const NETWORK = REAL_TIME.map((name) => `${name}.test.ts`);

export default defineConfig({
  test: {
    // For what hangs, and long enough for a slow, busy machine: no test is judged by it.
    testTimeout: 300_000,
    hookTimeout: 300_000,
    expect: { poll: { timeout: 60_000 } },
    pool: "forks",
    // More than two processors: tests that wait for time to pass leave them idle.
    maxWorkers: 3,
    sequence: { sequencer: FileOrder },
    projects: [
      // Nothing else in src/ keeps state in its modules: one process loads them once for many files.
      { extends: true, test: { name: "src", include: ["src/**/*.test.ts"], exclude: ALONE, isolate: false } },
      { extends: true, test: { name: "tests", include: ["tests/**/*.test.ts", ...ALONE], exclude: NETWORK } },
      // Real interfaces, queues and clocks of a machine that others use too: what fails for a pause of the machine passes when tried again, a fault fails three times.
      { extends: true, test: { name: "network", include: NETWORK, retry: 2, sequence: { groupOrder: 1 } } },
    ],
  },
});
