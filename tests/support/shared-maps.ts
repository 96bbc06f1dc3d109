/** Tests on maps of real networks, which are not part of the repository; skipped with a reason if the maps are missing. */
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe } from "vitest";

const repo = dirname(dirname(dirname(fileURLToPath(import.meta.url))));

export function shared(path: string, tests: (path: string) => void): void {
  const root = process.env["HOPTIME_SHARED"] ?? join(repo, "..", "shared");
  const full = join(root, "traces", path);
  if (existsSync(full)) describe(path, () => tests(full));
  else {
    process.stderr.write(`skipped: ${full} is not there (set HOPTIME_SHARED)\n`);
    describe.skip(`${path} (not there: set HOPTIME_SHARED)`, () => tests(full));
  }
}
