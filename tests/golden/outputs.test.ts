/**
 * The output of the commands, number by number, compared with files in tests/golden/outputs/: a change of any number is a line in the diff of the change that
 * caused it, and belongs in the CHANGELOG. `vitest run tests/golden/outputs.test.ts -u` writes new files. The commands are those of dist/.
 *
 * Not compared: the version of the program, and digits after the twelfth, which depend on the processor's and V8's functions.
 */
import { copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, it } from "vitest";
import { cliOutput } from "../support/cli.ts";
import { DEMO } from "../support/demo-captures.ts";

const scratch = mkdtempSync(join(tmpdir(), "hoptime-outputs-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));
const here = (name: string) => fileURLToPath(new URL(`outputs/${name}`, import.meta.url));

const hoptime = (...args: string[]) => cliOutput(args, { cwd: scratch });

/** Twelve digits, which are the same on every machine. */
function rounded(key: string, value: unknown): unknown {
  if (key === "hoptime") return undefined;
  return typeof value === "number" && !Number.isInteger(value) ? Number(value.toPrecision(12)) : value;
}

async function expectGolden(name: string, json: string): Promise<void> {
  const text = `${JSON.stringify(JSON.parse(json), rounded, 1)}\n`;
  await expect(text).toMatchFileSnapshot(here(`${name}.json`));
}

beforeAll(() => {
  copyFileSync(DEMO.before, join(scratch, "in.pcap.gz"));
  copyFileSync(DEMO.after, join(scratch, "out.pcap.gz"));
});

it("compare answers what it answered", async () => {
  await expectGolden(
    "compare",
    hoptime("compare", "in.pcap.gz", "out.pcap.gz", "--epoch", "100ms", "--json"),
  );
});

it("compare's estimators answer what they answered", async () => {
  const estimators = "lda,lds,colate,maple,sds,trajectory,multiflow,probes,global-mean";
  const report = JSON.parse(
    hoptime("compare", "in.pcap.gz", "out.pcap.gz", "--json", "--estimators", estimators),
  );
  await expectGolden("compare-estimators", JSON.stringify(report.estimates));
});

it("query answers what it answered, for segments, flows and packets", async () => {
  const sketches = ["--estimators", "lda,lds,colate,flows", "--epoch", "200ms", "--to", "records"];
  hoptime("observe", "in.pcap.gz", "--point", "A", ...sketches);
  hoptime("observe", "out.pcap.gz", "--point", "B", ...sketches);
  const stores = ["--estimators", "maple,sds", "--epoch", "200ms", "--to", "stores"];
  hoptime("observe", "out.pcap.gz", "--sender", "in.pcap.gz", "--point", "B", ...stores);
  await expectGolden("query", hoptime("query", "records", "--between", "A", "B", "--json"));
  await expectGolden("query-top", hoptime("query", "records", "--between", "A", "B", "--top", "3", "--json"));
  const ofPackets = ["--capture", "in.pcap.gz", "--point", "B", "--group", "host", "--json"];
  await expectGolden("query-packets", hoptime("query", "stores", ...ofPackets));
});

it("localise answers what it answered", async () => {
  copyFileSync(here("chain.json"), join(scratch, "chain.scenario.json"));
  hoptime("simulate", "--out", "chain", "--scenario", "chain.scenario.json");
  const files = ["sender", "r1", "r2", "receiver"].map((point) => join("chain", `${point}.pcap`));
  await expectGolden("localise", hoptime("localise", ...files, "--epoch", "500ms", "--json"));
});

it("plan answers what it answered", async () => {
  copyFileSync(here("map.csv"), join(scratch, "map.csv"));
  await expectGolden("plan", hoptime("plan", "map.csv", "--upgrade", "4", "--json"));
  await expectGolden(
    "plan-optimal",
    hoptime("plan", "map.csv", "--upgrade", "2", "--strategy", "optimal-small", "--json"),
  );
});
