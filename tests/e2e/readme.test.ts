/** The outputs in the README are those of the program. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ROOT } from "../support/demo-captures.ts";

const scratch = mkdtempSync(join(tmpdir(), "hoptime-readme-"));
beforeAll(() => symlinkSync(join(ROOT, "demo"), join(scratch, "demo")));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

const readme = readFileSync(join(ROOT, "README.md"), "utf8");
/** Of the parts between ``` fences, every other one is code. */
const blocks = readme.split(/^```\w*$/m).flatMap((part, i) => (i % 2 === 1 ? [part.trimStart()] : []));

/** Including standard error, as on a terminal. */
function hoptime(command: string): string {
  const main = join(ROOT, "dist/cli/main.js");
  const line = `"${process.execPath}" "${main}" ${command.replace(/^\S+/, "")} 2>&1`;
  return execFileSync("sh", ["-c", line], { cwd: scratch, encoding: "utf8", maxBuffer: 1 << 28 }).replaceAll(
    ROOT,
    "",
  );
}

describe("the README", () => {
  const shown = blocks.filter((block) => block.startsWith("$ ./hoptime"));

  it.each(shown.map((block) => [block.split("\n", 1)[0] ?? "", block]))("%s", (command, block) => {
    const expected = block.slice(command.length + 1).trimEnd();
    // The rest, such as the duration, differs from run to run.
    expect(hoptime(command.replace("$ ", "")).slice(0, expected.length)).toBe(expected);
    expect(expected.split("\n").length).toBeGreaterThan(10);
  });

  it("the chain of points, and who is to blame", () => {
    const commands = [...readme.matchAll(/^hoptime (simulate|localise) [^#\n]*chain[^#\n]*/gm)].map(([c]) =>
      c.trim(),
    );
    const [, printed] = commands.map((command) => hoptime(command));
    const block = blocks.find((text) => text.startsWith("segment  ")) ?? "";
    const lines = block.split("\n").filter((line) => line !== "" && line !== "…");
    expect(lines.length).toBeGreaterThan(6);
    for (const line of lines) expect(printed?.split("\n")).toContain(line);
  });
});
