import { defineConfig } from "vitest/config";
export default defineConfig({ test: { testTimeout: 900000, hookTimeout: 900000, pool: "forks", setupFiles: ["./profsetup.mjs"], include: ["src/**/*.test.ts","tests/**/*.test.ts"] } });
