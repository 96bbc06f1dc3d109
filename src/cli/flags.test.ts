import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { invalidValue, UsageError } from "../base/errors.ts";
import { ESTIMATORS } from "../estimators/table.ts";
import { flagOf, usageLine, withFlags } from "./flags.ts";

const STRINGS = /"(?:[^"\\]|\\.)*"|`(?:[^`\\]|\\.)*`/g;
const SRC = fileURLToPath(new URL("..", import.meta.url));

const library = readdirSync(SRC, { recursive: true, encoding: "utf8" })
  .filter((file) => file.endsWith(".ts") && !file.endsWith(".test.ts") && !file.startsWith("cli/"))
  .map((file) => ({ file, text: readFileSync(join(SRC, file), "utf8") }));

/** Commands of other programs that hints quote. */
const OTHER_COMMANDS = /nats stream edit [^"`]*/g;
/** Contains the arguments of tcpdump and dumpcap, which it starts. */
const OTHER_PROGRAMS = "capture/source/interface/child-source.ts";

test("only the command line knows flags: no string of the library contains one", () => {
  const found = library.flatMap(({ file, text }) =>
    text
      .split("\n")
      .map((line, i) => ({ line: line.trim(), at: `${file}:${i + 1}` }))
      // Only strings count; comments may contain flags.
      .filter(({ line }) => !/^(\/\/|\*|\/\*)/.test(line))
      .filter(({ at }) => !at.startsWith(`${OTHER_PROGRAMS}:`))
      .filter(({ line }) =>
        (line.replaceAll(OTHER_COMMANDS, "").match(STRINGS) ?? []).some((text) => /--[a-z]/.test(text)),
      )
      .map(({ at, line }) => `${at} ${line}`),
  );
  expect(found).toEqual([]);
});

test("every parameter that the library names in a note or a hint is a flag of a command", () => {
  const commands = readdirSync(join(SRC, "cli"))
    .filter((file) => file.endsWith(".ts"))
    .map((file) => readFileSync(join(SRC, "cli", file), "utf8"))
    .join("\n");
  const estimators = ESTIMATORS.map((e) => e.name);
  const names = new Set(
    library.flatMap(({ text }) =>
      [...text.matchAll(/‘([a-z][A-Za-z-]*)(?:[ =][^’]*)?’/g)].map((m) => m[1] ?? ""),
    ),
  );
  expect(names.size).toBeGreaterThan(10);
  for (const name of names)
    if (!estimators.includes(name)) expect(commands, name).toMatch(new RegExp(`"${flagOf(name)}[ "]`));
});

test("parameters become flags in one place", () => {
  expect(flagOf("flowSize")).toBe("--flow-size");
  expect(withFlags("use ‘cover 82’, or ‘clock relative’")).toBe("use --cover 82, or --clock relative");
  expect(usageLine(invalidValue("sort", "x", "mean or p99"))).toBe(
    "--sort: invalid value 'x' (expected mean or p99)",
  );
  expect(usageLine(new UsageError("bad-option", "no such thing", "give ‘rate’"))).toBe(
    "no such thing; give --rate",
  );
});

test("an error carries its fields, and a message that needs no flags", () => {
  const error = invalidValue("confidence", 2, "a share between 0 and 1");
  expect(error).toMatchObject({ parameter: "confidence", value: 2, expected: "a share between 0 and 1" });
  expect(error.message).toBe("confidence: invalid value '2' (expected a share between 0 and 1)");
});
