/**
 * Compares `hoptime compare` on a pair of generated captures with `tcpdump -r F -w /dev/null` over both files, which is the minimum work of any program that
 * reads them. Whole commands, run in turn so that other load slows both; best of several runs. Then the cost per packet for 1e5 to 1e7 packets, within one
 * process and without its start-up.
 *
 *   node scripts/bench.mjs compare [--packets 5e6] [--interleaved 3e6:50000] [--runs 5] [--window 1s] [--shortest 1,20] [--sizes 1e5,1e6,1e7] [--main FILE] [--json]
 *
 * `--interleaved`: packets and flows of the first row, with heavy-tailed flows whose packets are interleaved, as on real links; here the reports with all flows
 * (--json, --csv) are timed too. `--shortest`: packets of the shortest flow if each burst belongs to one flow, one row each: with 1 there is a flow per five
 * packets, with 20 a flow per seventy. `none` omits the rows of an option. `--main`: dist/cli/main.js of another build, for an additional row. The captures are
 * generated once, in bench/data. Needs a built dist/ (npm run build), bash and tcpdump.
 */
import { spawnSync } from "node:child_process";
import { closeSync, existsSync, mkdirSync, openSync, readFileSync, readSync, writeFileSync } from "node:fs";
import { availableParallelism, cpus, loadavg } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import type { compareCaptures } from "../src/compare/compare.ts";
import { GENERATOR_VERSION, type GeneratedPair, generateCaptures } from "./generate-captures.ts";

const args = process.argv.slice(2);
const option = (name: string, otherwise: string) => {
  const at = args.indexOf(`--${name}`);
  return at < 0 ? otherwise : (args[at + 1] ?? otherwise);
};
const packets = Number(option("packets", "5e6"));
const runs = Number(option("runs", "5"));
const window = option("window", "1s");
const list = (name: string, otherwise: string) => {
  const given = option(name, otherwise);
  return given === "none" ? [] : given.split(",");
};
const sizes = list("sizes", "1e5,1e6,1e7").map(Number);
const other = option("main", "");
const json = args.includes("--json");
const say = (line: string) => {
  if (!json) console.log(line);
};

interface Pair {
  before: string;
  after: string;
  truth: GeneratedPair;
}

/** Kind of captures: number of packets, and how flows send. */
interface Kind {
  packets: number;
  shortestFlow?: number;
  interleavedFlows?: number;
}

const kinds: Kind[] = [
  ...list("interleaved", "3e6:50000").map((text): Kind => {
    const [n = 3e6, interleavedFlows = 50_000] = text.split(":").map(Number);
    return { packets: n, interleavedFlows };
  }),
  ...list("shortest", "1,20").map((text): Kind => ({ packets, shortestFlow: Number(text) })),
];

/** Returns the pair of this kind; it is generated if missing, and read once so that both programs find it in the page cache. */
function pairOf(kind: Kind): Pair {
  const { packets: n, shortestFlow = 1, interleavedFlows } = kind;
  const sort = interleavedFlows
    ? `-interleaved${interleavedFlows}`
    : shortestFlow === 1
      ? ""
      : `-flows${shortestFlow}`;
  const folder = join("bench", "data", `pair-${n}${sort}-v${GENERATOR_VERSION}`);
  const [before, after, truthFile] = ["before.pcap", "after.pcap", "truth.json"].map((f) =>
    join(folder, f),
  ) as [string, string, string];
  if (!existsSync(truthFile)) {
    console.error(`making ${folder} ...`);
    mkdirSync(folder, { recursive: true });
    writeFileSync(
      truthFile,
      JSON.stringify(generateCaptures({ ...kind, beforeFile: before, afterFile: after })),
    );
  }
  const buffer = Buffer.alloc(1 << 20);
  for (const file of [before, after]) {
    const fd = openSync(file, "r");
    while (readSync(fd, buffer) > 0);
    closeSync(fd);
  }
  return { before, after, truth: JSON.parse(readFileSync(truthFile, "utf8")) };
}

interface Run {
  wallSeconds: number;
  cpuSeconds: number;
  out: string;
}

/** Without NODE_EXTRA_CA_CERTS, because Node parses these certificates at every start of any program. */
const { NODE_EXTRA_CA_CERTS: _, ...ENVIRONMENT } = { ...process.env, LC_ALL: "C" } as Record<string, string>;

/** Runs commands one after the other, timed by bash. */
function timed(commands: string[][]): Run {
  const script = commands.map((c) => c.map((w) => `'${w.replaceAll("'", "'\\''")}'`).join(" ")).join(" && ");
  const run = spawnSync("bash", ["-c", `TIMEFORMAT='%3R %3U %3S'; time { ${script}; } 2>/dev/null`], {
    encoding: "utf8",
    maxBuffer: 1 << 28,
    env: ENVIRONMENT,
  });
  const [wall, user, system] = run.stderr.trim().split("\n").at(-1)!.split(" ").map(Number) as [
    number,
    number,
    number,
  ];
  if (run.status !== 0 || !(wall > 0)) throw new Error(`${commands[0]![0]} failed: ${run.stderr}`);
  return { wallSeconds: wall, cpuSeconds: user + system, out: run.stdout };
}

const CLI = resolve("dist", "cli", "main.js");
if (!existsSync(CLI)) {
  console.error("dist/ is missing: run npm run build");
  process.exit(2);
}
const hasTcpdump = spawnSync("tcpdump", ["--version"]).status === 0;
if (!hasTcpdump) console.error("tcpdump is not there: nothing to compare with");

/** Prints the peak memory when the command ends. */
const MEMORY_NOTE = `data:text/javascript,${encodeURIComponent(
  'process.on("exit", () => process.stdout.write("peak KiB " + process.resourceUsage().maxRSS + "\\n"))',
)}`;

/** A program to time besides tcpdump: name, program, additional arguments. */
interface Subject {
  name: string;
  main: string;
  args: string[];
  best: Run | null;
}

function whole(kind: Kind) {
  const { before, after, truth } = pairOf(kind);
  const plain = (name: string, main: string, ...more: string[]): Subject => ({
    name,
    main,
    args: more,
    best: null,
  });
  const subjects = [
    plain("hoptime compare", CLI),
    ...(kind.interleavedFlows
      ? [plain("hoptime compare --json", CLI, "--json"), plain("hoptime compare --csv", CLI, "--csv")]
      : []),
    ...(other ? [plain("the other build", other)] : []),
    ...(other && kind.interleavedFlows ? [plain("the other build --json", other, "--json")] : []),
  ];
  let theirs: Run | null = null;
  let peakMb = 0;
  for (let i = 0; i < runs; i++) {
    if (hasTcpdump)
      theirs = best(theirs, timed([before, after].map((f) => ["tcpdump", "-r", f, "-w", "/dev/null"])));
    for (const subject of subjects) {
      const start = [process.execPath, ...(subject.args.length === 0 ? ["--import", MEMORY_NOTE] : [])];
      const run = timed([
        [...start, subject.main, "compare", before, after, "--window", window, ...subject.args],
      ]);
      check(run, subject, truth);
      if (subject.main === CLI && subject.args.length === 0)
        peakMb = Math.max(peakMb, (Number(/peak KiB (\d+)/.exec(run.out)?.[1]) * 1024) / 1e6);
      // Drops the output, which may be hundreds of megabytes.
      subject.best = best(subject.best, { ...run, out: "" });
    }
  }
  return { truth, subjects, theirs, peakMb };
}

/** Throws if the report differs from what the generator knows. */
function check({ out }: Run, { args: [form] }: Subject, truth: GeneratedPair): void {
  let got: (number | undefined)[];
  if (form === "--json") {
    const { before, after, segment, flows } = JSON.parse(out);
    got = [before.packets, after.packets, segment.matched, flows.length];
  } else if (form === "--csv")
    got = [truth.sent, truth.received, truth.received, out.trim().split("\n").length - 1];
  else {
    const counts = /([\d,]+) sent, ([\d,]+) received, ([\d,]+) matched/.exec(out);
    got = [...(counts ?? []).slice(1).map((n) => Number(n.replaceAll(",", ""))), truth.flows];
  }
  const wanted = [truth.sent, truth.received, truth.received, truth.flows];
  if (wanted.some((n, i) => n !== got[i]))
    throw new Error(`wrong answer: ${got}, but ${JSON.stringify(truth)}`);
}

/** Returns the faster of two. */
const best = (one: Run | null, run: Run) =>
  one && one.wallSeconds <= run.wallSeconds ? minimum(one, run) : minimum(run, one);

/** Returns the first run with the minimum CPU time of both: on a busy machine, the two minima may come from different runs. */
function minimum(run: Run, other: Run | null): Run {
  return { ...run, cpuSeconds: Math.min(run.cpuSeconds, other?.cpuSeconds ?? Number.POSITIVE_INFINITY) };
}

/** CPU time per packet within this process, after a first run that compiles everything. */
async function perPacket(): Promise<{ packets: number; nsPerPacket: number; wallNsPerPacket: number }[]> {
  const library = (await import(pathToFileURL(resolve("dist", "compare", "compare.js")).href)) as {
    compareCaptures: typeof compareCaptures;
  };
  const once = async ({ before, after, truth }: Pair) => {
    const from = process.cpuUsage();
    const started = performance.now();
    const options = {
      before,
      after,
      windowNs: 1e9,
      flows: { top: 10, sort: "packets" },
      parallel: false,
    } as const;
    await library.compareCaptures(options);
    const used = process.cpuUsage(from);
    const n = truth.sent + truth.received;
    return { cpu: ((used.user + used.system) * 1000) / n, wall: ((performance.now() - started) * 1e6) / n };
  };
  const out = [];
  for (const n of sizes) {
    const pair = pairOf({ packets: n });
    await once(sizes.length > 1 && n > 1e6 ? pairOf({ packets: 1e6 }) : pair);
    const tries = n >= 1e7 ? 2 : n >= 1e6 ? 4 : 12;
    let cpu = Number.POSITIVE_INFINITY;
    let wall = Number.POSITIVE_INFINITY;
    for (let i = 0; i < tries; i++) {
      const run = await once(pair);
      cpu = Math.min(cpu, run.cpu);
      wall = Math.min(wall, run.wall);
    }
    out.push({ packets: n, nsPerPacket: cpu, wallNsPerPacket: wall });
  }
  return out;
}

const load = loadavg()[0]!;
say(
  `${availableParallelism()} processors (${cpus()[0]?.model.trim()}), load ${load.toFixed(1)}, Node ${process.version}`,
);
const time = (run: Run | null) => run && { wallSeconds: run.wallSeconds, cpuSeconds: run.cpuSeconds };
const rows = kinds.map((kind) => {
  const { truth, subjects, theirs, peakMb } = whole(kind);
  const both = truth.sent + truth.received;
  say(
    `${truth.sent} + ${truth.received} packets, ${truth.flows} flows, ${truth.meanRun.toFixed(2)} packets of a flow in a row, window ${window}, best of ${runs}`,
  );
  const row = (name: string, run: Run, ratio = "") =>
    say(
      `${name.padEnd(28)} ${run.wallSeconds.toFixed(2).padStart(7)} s wall ${run.cpuSeconds.toFixed(2).padStart(7)} s CPU ${(both / run.wallSeconds / 1e6).toFixed(1).padStart(6)} Mpps${ratio}`,
    );
  if (theirs) row("tcpdump, both files", theirs);
  const measured = subjects.map(({ name, best: run }) => {
    if (!run) throw new Error("nothing was run");
    const ratio = theirs && {
      wall: run.wallSeconds / theirs.wallSeconds,
      cpu: run.cpuSeconds / theirs.cpuSeconds,
    };
    row(
      name,
      run,
      ratio
        ? `   / tcpdump: wall ${ratio.wall.toFixed(2)}, CPU ${ratio.cpu.toFixed(2)} (of all threads)`
        : "",
    );
    return { name, ...time(run), ratio, mpps: both / run.wallSeconds / 1e6 };
  });
  say(`peak memory ${peakMb.toFixed(0)} MB`);
  return {
    packets: { before: truth.sent, after: truth.received },
    flows: truth.flows,
    meanRun: truth.meanRun,
    tcpdump: time(theirs),
    hoptime: measured,
    peakMb,
  };
});
const flatness = await perPacket();
if (flatness.length > 0) {
  say("cost per packet in one thread, without start-up");
  for (const f of flatness)
    say(
      `${String(f.packets).padStart(10)} packets ${f.nsPerPacket.toFixed(0).padStart(6)} ns CPU ${f.wallNsPerPacket.toFixed(0).padStart(6)} ns wall`,
    );
}
if (json) console.log(JSON.stringify({ window, runs, load, rows, perPacket: flatness }));
