import { expect, test } from "vitest";
import { formatTable } from "../present/text/table.ts";
import { visible, visibleLine } from "../present/text/visible.ts";
import { foldLine, palette, toTerminal } from "./terminal.ts";

const CLEAR = "\u001b[2J";
const TITLE = "\u001b]0;owned\u0007";
const C1 = "\u009b31m";
const BIDI = "\u202eevil";

test("what a terminal would obey is shown instead", () => {
  for (const text of [CLEAR, TITLE, C1, BIDI, "\r", "\b", "\u007f"]) {
    const shown = toTerminal(`before ${text} after`);
    expect(shown).not.toContain(text);
    expect(shown).toMatch(/before .*\\(x|u)[0-9a-f]+.* after/);
  }
  expect(visible("a\tb\nc")).toBe("a\\x09b\nc");
  expect(visibleLine("a\nb")).toBe("a\\nb");
});

test("own colours become codes, those of others do not", () => {
  const c = palette(() => true);
  expect(toTerminal(c.bold("name"))).toBe("\u001b[1mname\u001b[22m");
  expect(toTerminal(c.red(`a${CLEAR}`))).toBe("\u001b[31ma\\x1b[2J\u001b[39m");
  expect(palette(() => false).bold("name")).toBe("name");
});

test("tables hold one row per line, whatever their cells are, and any number of rows", () => {
  const rows = [`x${CLEAR}`, "two\nlines", "plain"];
  const text = formatTable(
    [
      { title: "name", align: "left", value: (r: string) => r },
      { title: "n", value: () => "1" },
    ],
    rows,
  );
  expect(text.split("\n")).toEqual([
    "  name        n",
    "  x\\x1b[2J    1",
    "  two\\nlines  1",
    "  plain       1",
  ]);
  const many = formatTable(
    [{ title: "n", value: (n: number) => String(n) }],
    Array.from({ length: 300_000 }, (_, i) => i),
  );
  expect(many.split("\n").length).toBe(300_001);
});

test("a line longer than the terminal is broken between columns, and colours take no place", () => {
  expect(foldLine("short", 60)).toEqual(["short"]);
  expect(foldLine("delay  mean 1 ms  p50 2 ms  p90 3 ms", 20)).toEqual([
    "delay  mean 1 ms",
    "  p50 2 ms  p90 3 ms",
  ]);
  expect(foldLine("\u001b[1mdelay\u001b[22m  mean 1 ms  max", 16)).toEqual([
    "\u001b[1mdelay\u001b[22m  mean 1 ms",
    "  max",
  ]);
  // A line without spaces is broken at the edge; no line is longer, and nothing is lost.
  const folded = foldLine("x".repeat(50), 20);
  expect(folded.every((line) => line.length <= 20)).toBe(true);
  expect(folded.join("").replaceAll(" ", "")).toBe("x".repeat(50));
});
