/** The completion scripts in real shells: bash sources its script and returns words. */
import { execFileSync, spawnSync } from "node:child_process";
import { describe, expect, test } from "vitest";
import { ESTIMATORS } from "../../src/estimators/table.ts";

const script = (shell: string) =>
  execFileSync("node", ["dist/cli/main.js", "completion", shell], { encoding: "utf8" });

/** Returns bash's completions for the last of these words. */
function offered(...words: string[]): string[] {
  const asked = `
source <(node dist/cli/main.js completion bash)
COMP_WORDS=(${["hoptime", ...words].map((w) => `'${w}'`).join(" ")})
COMP_CWORD=${words.length}
_hoptime
printf '%s\\n' "\${COMPREPLY[@]}"`;
  return execFileSync("bash", ["-c", asked], { encoding: "utf8" }).trim().split("\n");
}

describe("bash", () => {
  test("offers commands", () => {
    expect(offered("")).toEqual(expect.arrayContaining(["compare", "observe", "query", "completion"]));
    expect(offered("comp")).toEqual(["compare", "completion"]);
  });

  test("offers a command's flags, and those of commands below it", () => {
    expect(offered("compare", "a.pcap", "b.pcap", "--fail")).toEqual(["--fail-if"]);
    for (const { name } of ESTIMATORS.slice(0, 1))
      expect(offered("size", name, "--mem")).toEqual(["--memory"]);
  });

  test("offers a flag's choices, and files", () => {
    expect(offered("compare", "a", "b", "--clock", "r")).toEqual(["relative"]);
    expect(offered("inspect", "demo/router-i")).toEqual(["demo/router-in.pcap.gz"]);
    expect(offered("compare", "a", "b", "--html", "demo/router-i")).toEqual(["demo/router-in.pcap.gz"]);
  });
});

test("zsh and fish get every command and flag", () => {
  for (const shell of ["zsh", "fish"]) {
    const text = script(shell);
    for (const word of ["compare", "estimators", "fail-if", "annotate", "between"])
      expect(text).toContain(word);
  }
});

test("another shell is refused", () => {
  const { status, stderr } = spawnSync("node", ["dist/cli/main.js", "completion", "tcsh"], {
    encoding: "utf8",
  });
  expect(status).toBe(2);
  expect(stderr).toMatch(/invalid value 'tcsh' \(expected bash, zsh or fish\)/);
});
