import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { FormatError, UsageError } from "../base/errors.ts";
import { planCommand } from "./plan.ts";

let folder: string;
let printed: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "hoptime-plan-"));
  printed = "";
  vi.spyOn(process.stdout, "write").mockImplementation((text) => {
    printed += text;
    return true;
  });
});
afterEach(() => {
  vi.restoreAllMocks();
  rmSync(folder, { recursive: true, force: true });
});

const file = (name: string, content: string) => {
  writeFileSync(join(folder, name), content);
  return join(folder, name);
};
const run = (...args: string[]) => planCommand().exitOverride().parseAsync(args, { from: "user" });

describe("hoptime plan", () => {
  it("prints a table with a line per step", async () => {
    await run(file("net.csv", "A,B\nB,C\nC,D\n"), "--upgrade", "1");
    expect(printed).toContain("net.csv: 4 routers, 6 directed links; strategy greedy");
    expect(printed).toMatch(/\n0 {2}\(none\) +20 +12 {2} +1 +1\.67 +3 /);
    expect(printed).toMatch(/\n1 {2}B +10 +8 +1 +1\.25 +2 /);
  });

  it("prints hoptime.plan/1 with --json: step 0 is none", async () => {
    await run(file("net.csv", "A,B\nB,C\nC,D\n"), "--json", "-n", "2");
    const plan = JSON.parse(printed);
    expect(plan).toMatchObject({ format: "hoptime.plan/1", routers: 4, links: 6, parts: [4] });
    expect(
      plan.steps.map((s: { upgraded: number; router: string | null }) => [s.upgraded, s.router]),
    ).toEqual([
      [0, null],
      [1, "B"],
      [2, "C"],
    ]);
    expect(plan.steps[2]).toMatchObject({
      probeHops: 6,
      segments: { count: 6, minHops: 1, meanHops: 1, maxHops: 1 },
    });
  });

  it("takes traffic and costs of routers whose names hold commas", async () => {
    const map = file("w", "a,+X1 b 1\nb a,+X1 1\nb c 1\nc b 1\nc d 1\nd c 1\n");
    const demands = file("d.csv", '"a,+X1",d,5\n');
    const costs = file("c.csv", "router,cost\na,+X1,3\nb,2\n");
    await run(map, "--demands", demands, "--costs", costs, "--budget", "1", "--json");
    const plan = JSON.parse(printed);
    expect(plan.steps.map((s: { router: string }) => s.router)).toEqual([null, "c"]);
    expect(plan.steps[1]).toMatchObject({ totalCost: 1, trafficMeanHops: 5 / 3 });
  });

  it("writes picture and page", async () => {
    const svg = join(folder, "map.svg");
    const html = join(folder, "plan.html");
    await run(file("net.csv", "A,B\nB,C\n"), "--svg", svg, "--html", html);
    expect(readFileSync(svg, "utf8")).toMatch(/^<svg [\s\S]*<\/svg>\n$/);
    expect(readFileSync(html, "utf8")).toContain("<svg ");
  });

  it.each([
    [["missing.csv"], UsageError, "missing.csv: no such file"],
    [["NET", "--strategy", "best"], UsageError, "expected greedy"],
    [["NET", "--upgrade", "x"], UsageError, "upgrade: invalid value"],
    [["NET", "--budget", "much"], UsageError, "budget: invalid value"],
    [["NET", "--svg", "/nowhere/at/all.svg"], UsageError, "cannot be written"],
    [["BAD"], FormatError, "line 2: weight 'heavy'"],
  ])("%j is refused with one line", async (args, kind, message) => {
    const files: Record<string, string> = {
      NET: file("net.csv", "A,B\nB,C\n"),
      BAD: file("bad.csv", "A,B,1\nB,C,heavy\n"),
    };
    const failure = await run(...args.map((a) => files[a] ?? a)).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(kind);
    expect((failure as Error).message).toContain(message);
    expect((failure as Error).message).not.toContain("\n");
  });
});
