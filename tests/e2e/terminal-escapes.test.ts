import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { RecordArchive } from "../../src/archive/archive.ts";
import { runCli } from "../support/cli.ts";
import { numberedRecord } from "../support/numbered-record.ts";
import * as p from "../support/packets.ts";
import { PcapngWriter, pcapFile } from "../support/pcap-writer.ts";

const scratch = mkdtempSync(join(tmpdir(), "hoptime-escapes-"));
// An archive without records, too.
writeFileSync(join(scratch, "archive.json"), '{"format":"hoptime.archive/2"}');
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

/** Clears the screen, sets the title, sets colours with a C1 code, changes the writing direction, returns to the start of the line. */
const EVIL = "\x1b[2Jx\x1b]0;owned\x07\u009b31m\u202e\u2066evil\r\b";
/** The same without the characters that separate lines and cells. */
const CELL = EVIL.replace(/[\r\n]/g, "");
// biome-ignore lint/suspicious/noControlCharactersInRegex: those are what must not be there
const OBEYED = /[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u061c\u2028\u2029\u202a-\u202e\u2066-\u2069]/;
/** JSON keeps characters above U+007E. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: those are what must not be there
const NOT_JSON = /[\x00-\x09\x0b-\x1f]/;

const file = (name: string, bytes: string | Uint8Array) => {
  const path = join(scratch, name);
  writeFileSync(path, bytes);
  return path;
};

const START = 1_700_000_000_000_000_000n;
const udp = (i: number) =>
  p.stack(
    [p.ethernet(0x0800), p.ipv4({ proto: 17, id: i }), p.udp({ sport: 1000 + (i % 3), dport: 9 })],
    Uint8Array.of(i & 255, i >> 8, 7),
  );
const packets = (shiftNs: bigint) =>
  Array.from({ length: 300 }, (_, i) => ({
    timeNs: START + BigInt(i) * 10_000_000n + shiftNs,
    frame: udp(i),
  }));
const plain = { a: file("a.pcap", pcapFile(packets(0n))), b: file("b.pcap", pcapFile(packets(1_000_000n))) };
const NAME = CELL.replaceAll("/", "");
const named = { a: join(scratch, `${NAME}a.pcap`), b: join(scratch, `${NAME}b.pcap`) };
copyFileSync(plain.a, named.a);
copyFileSync(plain.b, named.b);

/** Names, descriptions, comments and all other texts of pcapng. */
function evilPcapng(): string {
  const text = (code: number) => ({ code, value: Buffer.from(`${EVIL}${code}`) });
  const w = new PcapngWriter().section(false, [text(1), text(2), text(3), text(4)]);
  for (const n of [0, 1, 2])
    w.interface({ name: `${EVIL}${n}`, resolution: 9, options: [text(1), text(3), text(12)] });
  for (const [hop, shift] of [0n, 1_000_000n, 2_000_000n].entries())
    for (const { timeNs, frame } of packets(shift))
      w.enhanced({ interfaceId: hop, ticks: timeNs, frame, options: [text(1)] });
  return file("evil.pcapng", w.done());
}

async function evilRecords(): Promise<string> {
  const directory = join(scratch, "records");
  const archive = await RecordArchive.create(directory);
  const records = (["sender", "receiver"] as const).flatMap((role) =>
    [1, 2, 3].map((n) =>
      numberedRecord(n, {
        role,
        point: role === "sender" ? "A" : "B",
        segment: n === 1 ? "" : EVIL,
        filter: EVIL,
        parameters: EVIL,
        key: n === 2 ? EVIL : "5tuple",
        program: EVIL,
        estimator: n === 3 ? `lda${CELL}` : "lda",
        ...(n === 1 ? { void: EVIL, payload: new Uint8Array(0) } : {}),
      }),
    ),
  );
  const { outcomes } = await archive.store(records.map((record) => ({ record })));
  expect(outcomes.map((o) => o.outcome)).toEqual(records.map(() => "stored"));
  return directory;
}

const run = (...args: string[]) => runCli(args);

/** Neither stream contains characters that a terminal interprets; some output exists. */
function check(args: string[], says: RegExp | null = /\\x1b|\\u001b/): void {
  const { out, err } = run(...args);
  expect(out).not.toMatch(OBEYED);
  expect(err).not.toMatch(OBEYED);
  expect((out + err).length).toBeGreaterThan(0);
  // The characters were made visible, so the input has reached the output.
  if (says) expect(out + err).toMatch(says);
}

const json = (name: string, value: unknown) => file(name, JSON.stringify(value));

describe("what a terminal obeys is shown, not sent", () => {
  test.each([
    ["inspect", [named.a]],
    ["compare", [named.a, named.b]],
    ["compare", [named.a, named.b, "--worst", "3", "--html", join(scratch, `${NAME}.html`)]],
    ["localise", [named.a, named.b]],
    ["localise", [plain.a, plain.b, "--names", `x${CELL},y`]],
    ["compare", [join(scratch, `${NAME}missing.pcap`), plain.b]],
    ["observe", [join(scratch, `${NAME}missing.pcap`), "--point", "A", "--to", join(scratch, "o1")]],
    ["observe", [named.a, "--point", "A", "--to", join(scratch, `${NAME}-o2`)]],
    ["observe", [plain.a, "--point", EVIL, "--to", join(scratch, "o3")]],
    ["observe", [plain.a, "--point", "A", "--to", join(scratch, "o4"), "--segment", `A:${CELL}=udp`]],
    ["observe", [plain.a, "--point", "A", "--to", join(scratch, "o5"), "--class", `${CELL}=udp`]],
    ["query", [join(scratch, NAME), "--between", "A", "B"]],
    ["query", [scratch, "--between", EVIL, "B"]],
    ["plan", [join(scratch, `${NAME}.csv`)]],
    ["simulate", ["--out", join(scratch, "s1"), "--scenario", join(scratch, `${NAME}.json`)]],
  ] as [string, string[]][])("names of files and points: %s, case %#", (command, args) => {
    check([command, ...args]);
  });

  test("pcapng: names, descriptions, comments, hardware", () => {
    const evil = evilPcapng();
    check(["inspect", evil]);
    check(["compare", evil]);
    check(["compare", `${evil}#7`, `${evil}#0`]);
    check(["compare", `${evil}#0`, `${evil}#1`], null);
    check(["compare", `${evil}#${EVIL}0`, `${evil}#1`], null);
    check(["observe", `${evil}#${EVIL}9`, "--point", "A", "--to", join(scratch, "o6")]);
  });

  test("records", async () => {
    const directory = await evilRecords();
    check(["query", directory, "--between", "A", "B"], null);
    check(["query", directory, "--between", "A", "B", "--segment", EVIL], null);
    check(["query", directory, "--between", "A", "B", "--estimator", `lda${CELL}`], null);
    check(["query", directory, "--point", "B", "--packet", "0123456789abcdef"], null);
    check(["localise", "--records", directory, "--path", "A,B"], null);
    check(["localise", "--records", directory, "--path", `A,${CELL}`]);
    const { out } = run("query", directory, "--between", "A", "B", "--json");
    expect(out).not.toMatch(NOT_JSON);
    if (out !== "") JSON.parse(out);
  });

  test("flow records", () => {
    const csv = file("flows.csv", `src,dst,proto,sport,dport,packets\n${CELL},10.0.0.2,17,1000,9,5\n`);
    const header = file("header.csv", `src,${CELL},proto\n1,2,3\n`);
    for (const records of [csv, header, file(`${NAME}.nf`, "no flow records")])
      check(["compare", plain.a, plain.b, "--estimators", "colate", "--flow-records", records], null);
  });

  test("maps, in every format that has names", () => {
    const maps = [
      json("t.json", {
        format: "hoptime.topology/1",
        name: EVIL,
        routers: [EVIL, "B", "C"],
        links: [
          { from: EVIL, to: "B" },
          { from: "B", to: "C", fromPort: EVIL },
        ],
        mServers: [EVIL, "C"],
      }),
      json("wrong.json", { format: "hoptime.topology/1", routers: ["A"], links: [], [EVIL]: 1 }),
      json("format.json", { format: EVIL, routers: [] }),
      json("unknown.json", {
        format: "hoptime.topology/1",
        routers: ["A"],
        links: [{ from: "A", to: EVIL }],
      }),
      file("net.csv", `from,to\n${CELL},B\nB,C\nC,${CELL}\n`),
      file("bad.csv", `from,to,weight\nA,B,${CELL}\n`),
      file(
        "net.graphml",
        `<?xml version="1.0"?><graphml><key id="l" for="node" attr.name="label" attr.type="string"/><graph edgedefault="undirected">` +
          `<node id="0"><data key="l">\u009b31m\u202eevil</data></node><node id="1"/><node id="2"/><edge source="0" target="1"/><edge source="1" target="2"/></graph></graphml>`,
      ),
      file(
        "bad.graphml",
        `<?xml version="1.0"?><graphml><graph><edge source="\u009b31m" target="1"/></graph></graphml>`,
      ),
      file(
        "net.graph",
        `NODES 3\nlabel x y\n${CELL} 0 0\nB 1 1\nC 2 2\n\nEDGES 2\nlabel src dest weight bw delay\n${CELL} 0 1 1 1 1\ne 1 2 1 1 1\n`,
      ),
      file("net.weights", `${CELL} B 1\nB C 1\n`),
    ];
    for (const map of maps) check(["plan", map, "--upgrade", "1"], null);
    check(["plan", maps[0] ?? "", "--upgrade", "3"]);
    check(["plan", maps[0] ?? "", "--demands", file("d.csv", `${CELL},B,7\nB,${CELL}x,1\n`)], null);
    check(["plan", maps[0] ?? "", "--costs", file("c.csv", `${CELL}x,2\n`)], null);
    const { out } = run("plan", maps[0] ?? "", "--upgrade", "1", "--json");
    expect(out).not.toMatch(NOT_JSON);
    expect(JSON.stringify(JSON.parse(out))).toContain(JSON.stringify(EVIL).slice(1, -1));
  });

  test("scenarios", () => {
    const out = ["simulate", "--out", join(scratch, "s2"), "--scenario"];
    const traffic = { kind: "synthetic", ratePps: 1000, durationS: 0.1 };
    const scenarios: unknown[] = [
      { seed: 1, traffic, path: [], [EVIL]: 1 },
      { seed: 1, traffic: { ...traffic, kind: EVIL }, path: [] },
      { seed: EVIL, traffic, path: [] },
      { seed: 1, traffic, path: [{ kind: EVIL }] },
      { seed: 1, traffic, path: [{ kind: "point", name: EVIL }] },
      { seed: 1, traffic, path: [], points: { [EVIL]: {} } },
    ];
    for (const [i, scenario] of scenarios.entries()) check([...out, json(`s${i}.json`, scenario)], null);
    check([...out, file("s.json", `{"seed": ${EVIL}`)], null);
  });

  test.each([
    [["compare", plain.a, plain.b, "--sort", EVIL]],
    [["compare", plain.a, plain.b, "--filter", EVIL]],
    [["compare", plain.a, plain.b, "--key", EVIL]],
    [["compare", plain.a, plain.b, "--window", EVIL]],
    [["compare", plain.a, plain.b, "--clock", EVIL]],
    [["compare", plain.a, plain.b, "--fail-if", EVIL]],
    [["compare", plain.a, plain.b, "--packets", EVIL]],
    [["compare", plain.a, plain.b, "--packets", join(scratch, EVIL, "p.csv")]],
    [["compare", plain.a, plain.b, "--prometheus", join(scratch, EVIL, "p.prom")]],
    [["compare", plain.a, plain.b, "--annotate", join(scratch, EVIL, "p.pcapng")]],
    [["compare", plain.a, plain.b, "--estimators", EVIL]],
    [["compare", plain.a, plain.b, "--estimators", "lda", "--lda", `${CELL}=1`]],
    [["compare", plain.a, plain.b, `--${EVIL}`]],
    [["compare", plain.a, plain.b, EVIL]],
    [[EVIL]],
    [[`--${EVIL}`]],
    [["estimators", EVIL]],
    [["size", EVIL]],
    [["completion", EVIL]],
    [["query", scratch, "--between", "A", "B", "--flow", EVIL]],
    [["query", scratch, "--between", "A", "B", "--from", EVIL]],
    [["plan", plain.a, "--strategy", EVIL]],
    [["reference", "--to", EVIL]],
  ] as [string[]][])("values of options: %#", (args) => {
    check(args, null);
  });

  test("JSON and CSV of captures with such names", () => {
    const { out } = run("compare", named.a, named.b, "--json");
    expect(out).not.toMatch(NOT_JSON);
    expect(JSON.parse(out).before.file).toBe(named.a);
    expect(run("compare", named.a, named.b, "--csv").out).not.toMatch(OBEYED);
    expect(run("inspect", evilPcapng(), "--json").out).not.toMatch(NOT_JSON);
  });
});
