/**
 * Every file of examples/ runs against the built package like a user's program, prints nothing on standard error, and prints the lines at its end (in a comment
 * that begins with "Prints:").
 */
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { ROOT } from "../support/demo-captures.ts";

const folder = join(ROOT, "examples");
const examples = readdirSync(folder).filter((name) => name.endsWith(".mjs"));

describe("examples", () => {
  it.each(examples)("%s runs and prints what it says", (name) => {
    const file = join(folder, name);
    const promised = /\/\* Prints:\n([\s\S]+?)\n\*\/\s*$/.exec(readFileSync(file, "utf8"))?.[1];
    expect(promised, "an example ends with a comment of what it prints").toBeDefined();
    const run = spawnSync(process.execPath, [file], { encoding: "utf8", cwd: ROOT });
    expect(run.stderr).toBe("");
    expect(run.status).toBe(0);
    expect(run.stdout.trim()).toBe(promised);
  });

  it("are all in the table of their page", () => {
    const page = readFileSync(join(folder, "README.md"), "utf8");
    for (const name of examples) expect(page).toContain(`\`${name}\``);
  });
});
