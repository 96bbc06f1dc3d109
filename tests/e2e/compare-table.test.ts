/** The tables that `compare` prints of flows and of loss, on captures of which each packet is known. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { MEASURE_NAMES } from "../../src/compare/columns.ts";
import type { CompareReport, FlowReport } from "../../src/compare/report.ts";
import { cliOutput, runCli } from "../support/cli.ts";
import { clientOf, type LinkPacket, linkCaptures, writeLink } from "../support/link-captures.ts";
import { PcapngWriter, pcapFile } from "../support/pcap-writer.ts";

const scratch = mkdtempSync(join(tmpdir(), "hoptime-table-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));
const path = (name: string) => join(scratch, name);
const FILES = { before: path("before.pcap"), after: path("after.pcap") };
const MS = 1e6;

/** Six flows whose order differs by every quantity; the odd ones have answers. */
function traffic(): LinkPacket[] {
  const packets: LinkPacket[] = [];
  for (let flow = 1; flow <= 6; flow++) {
    const sent = 40 + ((flow * 5) % 7) * 10;
    const rank = (flow * 3) % 7;
    for (let n = 0; n < sent; n++) {
      const atNs = (n + 1) * 20 * MS + flow * 1000;
      // Every tenth is slow, some by so much that others overtake them.
      const slow = n % 10 === 5 ? ((flow * 4) % 7) * 8 * MS : 0;
      const delayNs = (1 + rank) * MS + (n % 4) * ((flow * 2) % 7) * 0.1 * MS + slow;
      const middle = n > 10 && n < 30;
      const lost = middle && n - 10 <= (flow * 2) % 7;
      const unseen = middle && n >= 30 - ((flow * 4) % 7);
      const copied = n > 30 && n - 30 <= (flow * 6) % 7;
      packets.push({ flow, atNs, delayNs: lost ? null : delayNs, unseen, copied, size: 20 + flow * 30 });
      if (flow % 2 === 0) continue;
      const back = { flow, reverse: true, atNs: atNs + 9 * MS, size: 12 };
      packets.push({
        ...back,
        delayNs: n === 20 ? null : 2 * MS + flow * 1000,
        unseen: flow === 3 && n === 25,
      });
    }
  }
  return packets;
}

/** Cells of a table of the text, by title. */
function table(text: string, title: string): Record<string, string>[] {
  const lines = (text.split(`\n${title} by `)[1] ?? "").split("\n\n")[0]?.split("\n").slice(1) ?? [];
  const [head = "", ...rows] = lines.map((line) => line.trim());
  const titles = head.split(/\s{2,}/);
  return rows.map((row) =>
    Object.fromEntries(row.split(/\s{2,}/).map((cell, at) => [titles[at] ?? `column ${at}`, cell])),
  );
}

describe("the table of flows", () => {
  let report: CompareReport;
  beforeAll(() => {
    writeLink(traffic(), FILES);
    report = JSON.parse(cliOutput(["compare", FILES.before, FILES.after, "--json"]));
  });

  const compare = (...options: string[]) => cliOutput(["compare", FILES.before, FILES.after, ...options]);

  test("holds what appeared, and the flows of the way back", () => {
    const packets = traffic();
    const text = compare("--top", "20");
    for (const [title, reverse] of [
      ["flows", false],
      ["reverse flows", true],
    ] as const) {
      const rows = table(text, title);
      const flows = [...new Set(packets.filter((p) => (p.reverse ?? false) === reverse).map((p) => p.flow))];
      expect(rows).toHaveLength(flows.length);
      for (const flow of flows) {
        const own = packets.filter((p) => p.flow === flow && (p.reverse ?? false) === reverse);
        const row = rows.find((r) => r["flow"]?.includes(clientOf(flow)));
        expect(row, `${title} ${flow}`).toMatchObject({
          sent: String(own.filter((p) => !p.unseen).length),
          lost: String(own.filter((p) => p.delayNs === null).length),
          appeared: String(own.filter((p) => p.unseen).length),
        });
      }
    }
    expect(table(text, "flows").some((row) => Number(row["appeared"]) > 1)).toBe(true);
    expect(table(text, "reverse flows").some((row) => row["appeared"] === "1")).toBe(true);
  });

  const share = (f: FlowReport) => (f.matched + f.lost > 0 ? f.lost / (f.matched + f.lost) : null);
  /** From the JSON, independently of the list that the program sorts by. */
  const VALUES: Record<string, (flow: FlowReport) => number | null> = {
    packets: (f) => Math.max(f.sent, f.received),
    loss: share,
    ...Object.fromEntries(
      (["sent", "received", "matched", "bytes", "lost", "appeared", "duplicates", "reordered"] as const).map(
        (name) => [name, (f: FlowReport) => f[name]],
      ),
    ),
    ...Object.fromEntries(
      (["mean", "stdev", "min", "p50", "p90", "p99", "max", "jitter"] as const).map((name) => [
        name,
        (f: FlowReport) => f.latency?.[`${name}Ns`] ?? null,
      ]),
    ),
    "p99.9": (f) => f.latency?.p999Ns ?? null,
  };

  test("can be sorted by each of its columns", () => {
    const titles = Object.keys(table(compare(), "flows")[0] ?? {});
    expect(titles).toContain("appeared");
    // The name of a flow is not a quantity.
    for (const title of titles.filter((t) => t !== "flow")) expect(MEASURE_NAMES).toContain(title);
    expect(Object.keys(VALUES).sort()).toEqual([...MEASURE_NAMES].sort());
  });

  test.each(MEASURE_NAMES)("sorted by %s, largest first, in both directions", (column) => {
    const value = VALUES[column];
    if (!value) throw new Error(`no value for ${column}`);
    const known = (flow: FlowReport) => value(flow) ?? Number.NEGATIVE_INFINITY;
    expect(new Set(report.flows.map(known)).size, "flows differ").toBeGreaterThan(3);
    const text = compare("--sort", column, "--top", "4");
    for (const [title, flows] of [
      ["flows", report.flows],
      ["reverse flows", report.reverseFlows],
    ] as const) {
      const largest = flows.map(known).sort((a, b) => b - a);
      const shown = table(text, title).map((row) => {
        const client = (f: FlowReport) =>
          `${title === "flows" ? f.key.src : f.key.dst}:${clientPort(f, title)}`;
        const flow = flows.find((f) => row["flow"]?.includes(client(f)));
        return flow ? known(flow) : null;
      });
      expect(shown).toEqual(largest.slice(0, 4));
    }
  });

  const clientPort = (f: FlowReport, title: string) => (title === "flows" ? f.key.sport : f.key.dport);

  test("CSV of flows and CSV of packets name the same things alike", () => {
    const packetFile = path("packets.csv");
    const [flowHead = "", firstFlow = ""] = compare("--csv", "--packets", packetFile).split("\n");
    const [packetHead = "", ...rows] = readFileSync(packetFile, "utf8").trimEnd().split("\n");
    const [flowColumns, packetColumns] = [flowHead.split(","), packetHead.split(",")];
    const key = ["direction", "src", "dst", "proto", "sport", "dport", "dscp", "vlan"];
    for (const column of key) {
      expect(flowColumns).toContain(column);
      expect(packetColumns).toContain(column);
    }
    // Column names are those of the JSON report, with units.
    const [flow] = report.flows;
    const names = new Set([...Object.keys(flow ?? {}), ...Object.keys(flow?.latency ?? {}), ...key]);
    expect(flowColumns.filter((column) => !names.has(column))).toEqual([]);
    expect(packetColumns.filter((column) => /time|delay|sent|received/i.test(column))).toEqual([
      "sentNs",
      "receivedNs",
      "delayNs",
    ]);
    // The same flow has the same values in both.
    const cells = (line: string, columns: string[]) =>
      key.map((name) => line.split(",")[columns.indexOf(name)]);
    const own = cells(firstFlow, flowColumns).join();
    const sent = Number(firstFlow.split(",")[flowColumns.indexOf("sent")]);
    const ofFlow = rows.filter((row) => cells(row, packetColumns).join() === own);
    expect(ofFlow.filter((row) => row.split(",")[packetColumns.indexOf("sentNs")] !== "")).toHaveLength(sent);
  });
});

describe("loss that is unlikely to be real is flagged below the headline, with its likely cause", () => {
  const plain = (count = 400): LinkPacket[] =>
    Array.from({ length: count }, (_, n) => ({
      flow: 1 + (n % 4),
      atNs: n * 10 * MS,
      delayNs: n % 20 === 7 ? null : 2 * MS,
    }));
  const flag = (text: string) => /^.*loss is probably not real: .*$/m.exec(text)?.[0] ?? null;
  const textOf = (files: { before: string; after: string }) =>
    runCli(["compare", files.before, files.after]).out;

  test("plain loss is not", () => {
    const text = textOf(writeLink(plain(), FILES));
    expect(text).toContain("20 lost (5.00 %)");
    expect(flag(text)).toBeNull();
  });

  test("addresses that are rewritten", () => {
    const packets = plain().map((p) => ({ ...p, rewritten: p.flow === 2 }));
    const text = textOf(writeLink(packets, FILES));
    expect(flag(text)).toMatch(
      /^loss is probably not real: addresses or ports are translated on the way \(NAT\): 100 % .*; use --nat$/,
    );
    // Before anything about single flows.
    expect(text.indexOf(flag(text) ?? "none")).toBeLessThan(text.indexOf("flows by packets"));
  });

  test("a capture that dropped packets itself", () => {
    const { before, after } = linkCaptures(plain());
    const writer = new PcapngWriter().section().interface({ resolution: 9 });
    for (const { timeNs, frame } of after) writer.enhanced({ ticks: timeNs, frame });
    writeFileSync(FILES.before, pcapFile(before, { nano: true }));
    writeFileSync(FILES.after, writer.statistics(0, 18n).done());
    expect(flag(textOf(FILES))).toMatch(
      /not real: the second capture itself dropped 18 packets.*larger buffer/,
    );
  });

  test("a capture that is cut", () => {
    const { before, after } = linkCaptures(plain());
    writeFileSync(FILES.before, pcapFile(before, { nano: true }));
    writeFileSync(FILES.after, pcapFile(after, { nano: true }).subarray(0, -10));
    expect(flag(textOf(FILES))).toBe("loss is probably not real: the second capture is incomplete");
  });

  test("on the way back it is the first capture that dropped them", () => {
    const packets = plain().flatMap((p, n): LinkPacket[] => [
      { ...p, delayNs: 2 * MS },
      { ...p, atNs: p.atNs + 4 * MS, reverse: true, delayNs: n % 20 === 9 ? null : 2 * MS },
    ]);
    const { before, after } = linkCaptures(packets);
    const writer = new PcapngWriter().section().interface({ resolution: 9 });
    for (const { timeNs, frame } of before) writer.enhanced({ ticks: timeNs, frame });
    writeFileSync(FILES.before, writer.statistics(0, 20n).done());
    writeFileSync(FILES.after, pcapFile(after, { nano: true }));
    expect(flag(textOf(FILES))).toMatch(
      /^reverse loss is probably not real: the first capture itself dropped 20 packets/,
    );
  });
});
