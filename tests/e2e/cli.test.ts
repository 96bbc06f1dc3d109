/** The built command line, run as a process: answers on stdout, one line per error on stderr, exit codes. */
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { CLI, runCli } from "../support/cli.ts";
import { DEMO, ROOT, readFrames, shifted, writeFrames } from "../support/demo-captures.ts";
import { ethernet, ipv4, stack, udp } from "../support/packets.ts";
import { PcapngWriter } from "../support/pcap-writer.ts";

const scratch = mkdtempSync(join(tmpdir(), "hoptime-cli-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

const hoptime = (args: string[], input?: Buffer) =>
  runCli(args, { cwd: scratch, ...(input ? { input } : {}) });

const commands = hoptime(["--help"])
  .out.split("Commands:\n")[1]!
  .split("\n\n")[0]!
  .split("\n")
  .map((line) => line.trim().split(/\s+/)[0]!);

describe("the command line", () => {
  test("says its version, and it is the package's", () => {
    const { version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
    expect(hoptime(["--version"])).toEqual({ status: 0, out: `${version}\n`, err: "" });
  });

  test("lists commands that are there", () => {
    expect(commands).toEqual(expect.arrayContaining(["compare", "inspect", "demo"]));
  });

  test.each(commands)("%s --help shows examples and --json", (name) => {
    const { status, out } = hoptime([name, "--help"]);
    expect(status).toBe(0);
    expect(out).toContain("Examples:");
    // The output is a program for a shell.
    if (name !== "completion") expect(out).toContain("--json");
  });

  test("observe --help fits two screens of 50 lines and 100 columns", () => {
    const lines = hoptime(["observe", "--help"]).out.split("\n");
    expect(lines.length).toBeLessThanOrEqual(100);
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(100);
  });

  test.each(commands)(
    "%s --help gives defaults as they are typed, on at most 100 lines of 100 columns",
    (name) => {
      const { out } = hoptime([name, "--help"]);
      expect(out).not.toMatch(/default: *("|\d{7})|choices: *"/);
      const lines = out.split("\n");
      expect(lines.length).toBeLessThanOrEqual(100);
      expect(lines.filter((line) => line.length > 100)).toEqual([]);
    },
  );

  test("compare prints a table without colours where stdout is no terminal", () => {
    const { status, out } = hoptime(["compare", DEMO.before, DEMO.after, "--top", "3"]);
    expect(status).toBe(0);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: that is what is looked for
    expect(out).not.toMatch(/\u001b\[/);
    expect(out).toMatch(/6,664 sent, 6,330 received, 6,163 matched, 320 lost/);
    expect(out.split("flows by packets")[1]!.match(/ > /g)).toHaveLength(3);
  });

  test("compare --json, --csv and --html agree", () => {
    const json = JSON.parse(hoptime(["compare", DEMO.before, DEMO.after, "--json"]).out);
    expect(json).toMatchObject({ format: "hoptime.compare/1", segment: { matched: 6163 } });
    const csv = hoptime(["compare", DEMO.before, DEMO.after, "--csv"]).out.trimEnd().split("\n");
    expect(csv).toHaveLength(json.flows.length + json.reverseFlows.length + 1);
    const html = hoptime(["compare", DEMO.before, DEMO.after, "--html", "r.html"]);
    expect(html.status).toBe(0);
    const page = readFileSync(join(scratch, "r.html"), "utf8");
    expect(page).toContain("router-in.pcap.gz");
    expect(page).not.toMatch(/(src|href)="https?:/);
  });

  test("demo writes the report and says where", () => {
    const { status, err, out } = hoptime(["demo"]);
    expect(status).toBe(0);
    expect(out).toContain("packets  6,664 sent");
    expect(err).toContain("hoptime-report.html");
    expect(existsSync(join(scratch, "hoptime-report.html"))).toBe(true);
  });

  test("a capture may come from standard input", () => {
    const { status, out } = hoptime(["compare", "-", DEMO.after, "--json"], readFileSync(DEMO.before));
    expect(status).toBe(0);
    expect(JSON.parse(out).segment.matched).toBe(6163);
  });

  test.each(["--json", "--csv"])("a reader of %s that leaves early is no error", async (flag) => {
    const child = spawn(process.execPath, [CLI, "compare", DEMO.before, DEMO.after, flag]);
    let err = "";
    child.stderr.on("data", (piece) => {
      err += piece;
    });
    child.stdout.once("data", () => child.stdout.destroy());
    const code = await new Promise((resolve) => child.on("close", resolve));
    expect({ code, err }).toEqual({ code: 0, err: "" });
  });

  test.skipIf(!existsSync("/dev/full"))("a full disk gives one line and exit code 2", () => {
    for (const flags of [["--json"], ["--csv"], []]) {
      const run = spawnSync(
        "sh",
        [
          "-c",
          'exec "$0" "$@" > /dev/full',
          process.execPath,
          CLI,
          "compare",
          DEMO.before,
          DEMO.after,
          ...flags,
        ],
        { encoding: "utf8" },
      );
      expect(run.status).toBe(2);
      expect(run.stderr).toBe(
        "hoptime: standard output: no space left on device; the output is incomplete\n",
      );
    }
    const page = hoptime(["compare", DEMO.before, DEMO.after, "--html", "/dev/full"]);
    expect(page).toEqual({
      status: 2,
      out: "",
      err: "hoptime: /dev/full: cannot be written: no space left on device\n",
    });
  });

  test("standard input with the second clock behind: as many delays as matches, and what would tell the way is named", () => {
    const behind = writeFrames(
      join(scratch, "behind.pcap"),
      shifted(readFrames(DEMO.after), () => -1_000_000_000n),
    );
    const { status, out } = hoptime(["compare", DEMO.before, "-", "--json"], readFileSync(behind));
    expect(status).toBe(0);
    const { segment, reverse, notes } = JSON.parse(out);
    expect(segment.matched + reverse.matched).toBe(6163);
    expect(segment.latency?.count ?? 0).toBe(segment.matched);
    expect(reverse.latency?.count ?? 0).toBe(reverse.matched);
    expect(notes.join("\n")).toMatch(/directions could not be separated .* 'reverse' .*give files/);
  });

  test.skipIf(process.platform === "win32")(
    "files that may not grow give one line that names the place, and nothing is left in part",
    () => {
      // 1 KiB: enough for a marker, but not for a record or a capture.
      const limited = (args: string[]) => {
        const shell = ["-c", 'ulimit -f 1 && exec "$0" "$@"', process.execPath, CLI, ...args];
        const run = spawnSync("bash", shell, { cwd: scratch, encoding: "utf8" });
        return { status: run.status, err: run.stderr };
      };
      const observe = ["observe", DEMO.before, "--point", "A", "--estimators", "lds", "--to", "limited"];
      expect(limited(observe)).toEqual({
        status: 2,
        err: "hoptime: limited: cannot be written: file too large; the records written so far are complete: free some space, or make it writable, and repeat\n",
      });
      const left = readdirSync(join(scratch, "limited"), { recursive: true, withFileTypes: true });
      expect(left.filter((f) => f.isFile()).map((f) => f.name)).toEqual(["archive.json"]);
      expect(limited(["simulate", "--out", "sim"])).toEqual({
        status: 2,
        err: "hoptime: sim: cannot be written: file too large\n",
      });
      expect(existsSync(join(scratch, "sim"))).toBe(false);
    },
  );

  test("two interfaces of one file are two points; inspect says how to compare them", () => {
    const w = new PcapngWriter().section().interface({ name: "lan" }).interface({ name: "wan" });
    const frame = (n: number) =>
      stack([ethernet(0x0800), ipv4({ proto: 17, id: n }), udp()], Buffer.from([n]));
    for (let n = 0; n < 50; n++) {
      w.enhanced({ interfaceId: 0, ticks: BigInt(1000 * n), frame: frame(n) });
      if (n !== 20) w.enhanced({ interfaceId: 1, ticks: BigInt(1000 * n + 70), frame: frame(n) });
    }
    writeFileSync(join(scratch, "both.pcapng"), w.done());
    const inspected = hoptime(["inspect", "both.pcapng"]).out;
    expect(inspected).toMatch(/point +1 wan: Ethernet/);
    expect(inspected).toMatch(/point +1 wan: .*, no snap length, /);
    const command = /hoptime (compare \S+ \S+)/.exec(inspected)![1]!;
    expect(command).toBe("compare both.pcapng#0 both.pcapng#1");
    const { status, out } = hoptime([...command.split(" "), "--json"]);
    expect(status).toBe(0);
    const report = JSON.parse(out);
    expect(report.segment).toMatchObject({ sent: 50, received: 49, matched: 49, lost: 1 });
    expect(report.segment.latency).toMatchObject({ minNs: 70_000, maxNs: 70_000 });
    expect(
      JSON.parse(hoptime(["compare", "both.pcapng#lan", "both.pcapng#wan", "--json"]).out).flows,
    ).toEqual(report.flows);
    expect(hoptime(["compare", "both.pcapng#lan", "both.pcapng#dmz"])).toEqual({
      status: 2,
      out: "",
      err: "hoptime: both.pcapng: has no interface 'dmz'; it has 0 (lan), 1 (wan); write the number or the name behind the #\n",
    });
  });

  const text = join(scratch, "notes.txt");
  writeFileSync(text, "not a capture at all, but long enough to be looked at\n");
  const empty = join(scratch, "nothing.pcap");
  writeFileSync(empty, "");
  test.each([
    ["a missing file", ["compare", "no-such.pcap", DEMO.after], /no-such\.pcap: no such file/],
    ["a directory", ["inspect", scratch], /is a directory/],
    ["a text file", ["compare", text, DEMO.after], /notes\.txt: at byte 0: not a pcap/],
    ["an empty file", ["inspect", empty], /nothing\.pcap: at byte 0: the file is empty/],
    ["an unknown option", ["compare", DEMO.before, DEMO.after, "--colour"], /unknown option '--colour'/],
    ["a missing argument", ["compare", DEMO.before], /the second capture is missing/],
    ["a bad duration", ["compare", DEMO.before, DEMO.after, "--window", "soon"], /soon/],
    [
      "a bad key",
      ["compare", DEMO.before, DEMO.after, "--key", "colour"],
      /--key: 'colour' is not a key field/,
    ],
    [
      "a bad clock mode",
      ["compare", DEMO.before, DEMO.after, "--clock", "mend"],
      /--clock: invalid value .mend. .expected asis/,
    ],
    ["a bad filter", ["compare", DEMO.before, DEMO.after, "--filter", "tcp prt 80"], /at character 5/],
    ["two standard inputs", ["compare", "-", "-"], /standard input can only be one/],
    ["an unknown command", ["compere"], /there is no command 'compere'; did you mean compare\?/],
    ["the beginning of two commands", ["re"], /did you mean reference or reproduce\?/],
    [
      "a capture instead of a command",
      [DEMO.before, DEMO.after],
      /is a file, not a command; hoptime compare/,
    ],
    ["an option before the command", ["--json", "compare"], /--json: a command comes first/],
    ["a misspelt estimator", ["estimators", "ldaa"], /did you mean lda\?/],
    ["a share above 1", ["compare", "a", "b", "--fail-if", "loss>1"], /expected a share with its unit/],
    ["records in a file", ["observe", DEMO.before, "--point", "A", "--to", text], /is not a directory/],
    ["records by FTP", ["observe", DEMO.before, "--point", "A", "--to", "ftp://x"], /--to: invalid value/],
    [
      "an epoch without a unit",
      ["observe", DEMO.before, "--point", "A", "--to", "r", "--epoch", "1"],
      /--epoch: /,
    ],
    [
      "a time that is none",
      ["query", "r", "--between", "A", "B", "--from", "yesterday"],
      /--from: 'yesterday'/,
    ],
    [
      "two questions at once",
      ["query", "r", "--between", "A", "B", "--capture", "x"],
      /--capture cannot be comb/,
    ],
    [
      "a token for a directory",
      ["query", "r", "--between", "A", "B", "--token-file", "x"],
      /needs a collector/,
    ],
    ["tokens of no collector", ["token", "list", "--data", "no-such-dir"], /no such directory/],
    ["more packets than can be counted", ["size", "lda", "--packets", "1e99"], /at most 1e15/],
    [
      "a host that does not exist",
      ["query", "http://nobody.invalid", "--between", "A", "B"],
      /unknown host|resolved/,
    ],
    [
      "an unwritable report",
      ["compare", DEMO.before, DEMO.after, "--html", "/no/such/folder/r.html"],
      /no\/such\/folder/,
    ],
  ])("%s gives one line and exit code 2", (_name, args, message) => {
    const { status, err, out } = hoptime(args);
    expect(status).toBe(2);
    expect(err).toMatch(message);
    expect(err).toMatch(/^hoptime: /);
    expect(err).not.toMatch(/\n\s+at /);
    if (!args.includes("--html")) expect(out).toBe("");
  });

  test("captures without IP packets are named, and exit 2 where there is nothing to compare", () => {
    const arp = (n: number) => stack([ethernet(0x0806)], Buffer.alloc(28, n));
    const none = join(scratch, "arp.pcapng");
    const w = new PcapngWriter().section().interface({ name: "lan" });
    for (let n = 0; n < 3; n++) w.enhanced({ interfaceId: 0, ticks: BigInt(1000 * n), frame: arp(n) });
    writeFileSync(none, w.done());
    const both = hoptime(["compare", none, none]);
    expect(both.status).toBe(2);
    expect(both.err).toMatch(/neither capture contains an IP packet; hoptime inspect/);
    const one = hoptime(["compare", none, DEMO.after, "--json"]);
    expect(one.status).toBe(0);
    expect(JSON.parse(one.out).notes.join("\n")).toMatch(/arp\.pcapng: contains no IP packets \(of 3\)/);
  });

  test("hoptime help COMMAND is its --help", () => {
    expect(hoptime(["help", "inspect"])).toEqual(hoptime(["inspect", "--help"]));
  });

  test("help names defaults that depend on the capture, too", () => {
    const { out } = hoptime(["compare", "--help"]);
    expect(out.replace(/\s+/g, " ")).toMatch(/--cover <bytes>[^(]*\(default: what both captures contain/);
    expect(out.replace(/\s+/g, " ")).toMatch(/--epoch <time>[^(]*\(default: 10ms to 1s/);
  });

  test("a cut capture is reported, marked, and exits 2", () => {
    const whole = readFileSync(DEMO.before);
    const cut = join(scratch, "cut.pcap.gz");
    writeFileSync(cut, whole.subarray(0, whole.length / 2));
    const { status, out, err } = hoptime(["compare", cut, DEMO.after]);
    expect(status).toBe(2);
    expect(out).toContain("PARTIAL");
    expect(err).toMatch(/cut\.pcap\.gz: at byte \d+: /);
  });

  test("compare --estimators puts estimates beside the exact values", () => {
    const run = hoptime([
      "compare",
      DEMO.before,
      DEMO.after,
      "--estimators",
      "lda",
      "--lda",
      "rows=128",
      "--json",
    ]);
    expect(run.status).toBe(0);
    const { estimates, segment } = JSON.parse(run.out);
    expect(estimates.lda).toMatchObject({ exactMeanNs: segment.latency.meanNs, confidence: 0.95 });
    expect(estimates.lda.bytes).toBe(2 * (12 + 4 * 128 * 16));
    expect(Math.abs(estimates.lda.relativeError)).toBeLessThan(0.05);
  });

  test.each([
    [
      ["compare", DEMO.before, DEMO.after, "--estimators", "nope"],
      /there is no estimator 'nope'; there are: lda/,
    ],
    [["compare", DEMO.before, DEMO.after, "--estimators", ","], /--estimators: invalid value/],
    [["compare", DEMO.before, DEMO.after, "--lda", "rows=2"], /add --estimators lda/],
    [
      ["compare", DEMO.before, DEMO.after, "--windov", "1s"],
      /unknown option '--windov' \(Did you mean --window\?\)/,
    ],
    [
      ["compare", DEMO.before, DEMO.after, "--estimators", "lda", "--lda", "rows=x"],
      /--lda: rows: invalid value .x. .expected a whole number/,
    ],
    [["token"], /a subcommand is missing \(expected add, list or revoke\)/],
    [["token", "list"], /required option '--data <dir>' not specified; hoptime token --help/],
    [["completion", "tcsh"], /hoptime: invalid value 'tcsh' \(expected bash, zsh or fish\)/],
    [["observe", "eht1", "--point", "A", "--to", "r"], /eht1: no such file or interface; .*ip -br link/],
    [["observe", "--follow", "gone.pcap", "--point", "A", "--to", "r"], /gone.pcap: no such file; /],
    [["size"], /hoptime size lda/],
    [["size", "flows"], /'flows' has no sizes to choose/],
    [["size", "lda"], /give --packets N or --capture FILE/],
    [["size", "lda", "--packets", "1e6", "--error", "1%", "--memory", "1kB"], /exclude each other/],
  ])("%j is refused in one line", (args, why) => {
    const { status, out, err } = hoptime(args);
    expect({ status, out }).toEqual({ status: 2, out: "" });
    expect(err).toMatch(why);
    expect(err.trimEnd().split("\n")).toHaveLength(1);
  });

  test.each(["lda", "lds", "colate", "maple", "rli"])(
    "size %s works for a path without loss, too",
    (name) => {
      const run = hoptime(["size", name, "--packets", "1e5", "--flows", "1e4", "--loss", "0", "--json"]);
      expect(run).toMatchObject({ status: 0, err: "" });
      const { predictions } = JSON.parse(run.out);
      expect(predictions.length).toBeGreaterThan(0);
      for (const { loss } of predictions) expect(loss).toBe(0);
    },
  );

  test("size lda finds a geometry that compare takes", () => {
    const run = hoptime(["size", "lda", "--capture", DEMO.before, "--loss", "5%", "--error", "2%", "--json"]);
    const answer = JSON.parse(run.out);
    expect(answer).toMatchObject({
      format: "hoptime.size/1",
      estimator: "lda",
      parameters: { loss: [0.05] },
    });
    expect(answer.predictions[0].relativeError).toBeLessThanOrEqual(0.02);
    const [flag, value] = answer.option.split(" ");
    const used = hoptime(["compare", DEMO.before, DEMO.after, "--estimators", "lda", flag, value, "--json"]);
    expect(JSON.parse(used.out).estimates.lda.senderBytes).toBe(answer.payloadBytes);
  });
});
