/** Packet queries over the network: a real collector, the built program, and the same JSON as from the directory of its records. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Kernels } from "../../src/base/kernels.ts";
import { Random } from "../../src/base/random.ts";
import { FlowKeySpec } from "../../src/capture/flow/flow-key.ts";
import { parseFlowKey } from "../../src/capture/flow/flow-text.ts";
import { encodeFlowKey } from "../../src/capture/flow/flow-words.ts";
import { CaptureReader } from "../../src/capture/reader.ts";
import { OBSERVE_COVER } from "../../src/observe/observe-captures.ts";
import { observePoint } from "../../src/observe/observe-point.ts";
import type { PacketAnswer } from "../../src/query/packet/answer.ts";
import { FIRST_NS, LAST_NS, PIECE, splitPieces } from "../../src/query/packet/captured-wire.ts";
import type { AskedFacts } from "../../src/query/packet/serve.ts";
import { decodeAnswer, encodeQuestion } from "../../src/query/packet/wire.ts";
import type { Answer } from "../../src/query/segment/answer.ts";
import { PACKET_QUESTION_TYPE } from "../../src/server/wire.ts";
import { type CollectProcess, runHoptime, startCollect } from "../support/collect-process.ts";
import { writePcap } from "../support/small-pcap.ts";

const root = mkdtempSync(join(tmpdir(), "hoptime-collect-packets-"));
const [before, after] = [join(root, "a.pcap"), join(root, "b.pcap")];
const data = join(root, "data");
const records = join(data, "records");
const START = 1_700_000_000_000_000_000n;
const random = new Random("packets over the network");
const sent = Array.from({ length: 4000 }, (_, n) => {
  const flow = n % 8;
  return {
    timeNs: START + 200_000_000n + BigInt(n) * 1_000_000n,
    src: `10.${flow % 2}.0.${flow + 1}`,
    dst: "10.9.0.9",
    sport: 2000 + flow,
    dport: 53,
    ipid: 100 + Math.floor(n / 8),
    payload: Uint8Array.from({ length: 20 }, () => random.below(256)),
    delayNs: Math.round(random.lognormal(12, 0.8)) + flow * 100_000,
    lost: n % 25 === 7,
  };
});
const digests: string[] = [];
let collector: CollectProcess;

beforeAll(async () => {
  writePcap(before, sent);
  const arrived = sent
    .filter((p) => !p.lost)
    .map((p) => ({ ...p, timeNs: p.timeNs + BigInt(p.delayNs) }))
    .sort((a, b) => (a.timeNs < b.timeNs ? -1 : 1));
  writePcap(after, arrived);
  mkdirSync(data);
  const cut = { mode: "aligned", lengthNs: 1_000_000_000n } as const;
  await observePoint({
    ...{ files: [after], sender: { files: [before], windowNs: 1e9 }, point: "B", directory: records, cut },
    ...{ estimators: ["maple"], parameters: { maple: "k=64,check=10,identity=both,index=true" } },
  });
  for (const [point, file] of [
    ["A", before],
    ["B", after],
  ] as const)
    await observePoint({ files: [file], point, directory: records, estimators: ["colate"], cut });
  const kernels = new Kernels();
  const reader = await CaptureReader.open(kernels, before, { cover: OBSERVE_COVER });
  while (await reader.next()) {
    const at = reader.batch.column("digest") >>> 3;
    for (let i = 0; i < reader.batch.count; i++)
      digests.push((kernels.u64[at + i] ?? 0n).toString(16).padStart(16, "0"));
  }
  reader.close();
  collector = await startCollect(data);
});
afterAll(async () => {
  await collector.stop();
  rmSync(root, { recursive: true, force: true });
});

async function both<T = PacketAnswer>(...args: string[]): Promise<T> {
  const [directory, url] = await Promise.all(
    [records, collector.url].map((place) => runHoptime(["query", place, ...args, "--json"])),
  );
  expect(JSON.parse(url ?? "")).toEqual(JSON.parse(directory ?? ""));
  return JSON.parse(url ?? "") as T;
}

const flow = "udp 10.0.0.1:2000 > 10.9.0.9:53";

describe("hoptime query URL gives the same JSON as on a directory", () => {
  it("by digests, by flow and IPIDs, and of all flows", async () => {
    expect((await both("--packet", ...digests.slice(0, 40))).matched).toBeGreaterThan(30);
    expect((await both("--flow", flow, "--ipid", "100-200")).groups).toHaveLength(1);
    expect((await both("--group", "host", "--top", "3")).groups).toHaveLength(3);
  });

  it("by the packets of a capture, which stay where they are", async () => {
    const all = await both("--capture", before);
    expect(all.packets).toBe(sent.length);
    expect(all.groups).toHaveLength(8);
    expect(all.matched + all.multi).toBeGreaterThanOrEqual(0.95 * sent.length);
    const some = await both("--capture", before, "--filter", "src host 10.0.0.1", "--group", "subflow/100");
    expect(some.packets).toBe(sent.length / 8);
    await both("--capture", before, "--group", "packet", "--top", "20");
    const late = await both("--capture", before, "--from", `${START + 2_000_000_000n}`, "--slack", "1ms");
    expect(late.notes.join()).toMatch(/outside the time covered by the records/);
    await both("--capture", before, "--point", "B", "--worst", "0", "--group", "prefix/16");
  });

  it("by a capture whose clock is off", async () => {
    const file = join(root, "off.pcap");
    writePcap(
      file,
      sent.map((p) => ({ ...p, timeNs: p.timeNs + 420_000_000_000n })),
    );
    expect((await both("--capture", file)).notes.join()).toMatch(/clock is about .* ahead of/);
  });

  it("with flow records", async () => {
    const csv = join(root, "flows.csv");
    const counts = new Map<string, number>();
    for (const { src, sport } of sent)
      counts.set(`${src},10.9.0.9,udp,${sport},53`, (counts.get(`${src},10.9.0.9,udp,${sport},53`) ?? 0) + 1);
    const lines = [...counts].map(([key, packets]) => `${key},${packets},${60 * packets}`);
    writeFileSync(csv, ["src,dst,proto,sport,dport,packets,bytes", ...lines].join("\n"));
    const answer = await both<Answer>("--between", "A", "B", "--flow-records", csv, "--top", "8");
    expect(answer.groups.filter((g) => g.latency)).not.toHaveLength(0);
    const byTail = await both<Answer>("--between", "A", "B", "--top", "8", "--sort", "p99");
    expect(byTail.groups[0]?.quantiles?.at(-1)?.share).toBe(0.99);
  });

  it("and the same refusals", async () => {
    const wrong = ["--capture", before, "--point", "nobody"];
    for (const place of [records, collector.url])
      await expect(runHoptime(["query", place, ...wrong])).rejects.toThrow(
        /no record answers for single packets here/,
      );
    await expect(
      runHoptime(["query", collector.url, "--capture", before, "--group", "dscp"]),
    ).rejects.toThrow(/does not contain dscp/);
  });
});

const post = (body: Uint8Array | string, type: string, query = "") =>
  fetch(`${collector.url}/v1/packets${query}`, {
    method: "POST",
    headers: { "content-type": type },
    body: typeof body === "string" ? body : new Uint8Array(body),
  });

describe("the wire form over HTTP", () => {
  const keys = () => BigUint64Array.from(digests.slice(0, 100), (d) => BigInt(`0x${d}`));

  it("answers digests with their delays, and says what was asked", async () => {
    const packets = { kind: "digests", digests: keys() } as const;
    const question = encodeQuestion({ fromNs: FIRST_NS, toNs: LAST_NS, values: true, packets });
    const response = await post(question, PACKET_QUESTION_TYPE);
    expect(response.status).toBe(200);
    const [answer, facts, ...more] = splitPieces(new Uint8Array(await response.arrayBuffer()));
    expect([answer?.type, facts?.type, more]).toEqual([PIECE.answers, PIECE.facts, []]);
    const { groups, values } = decodeAnswer(answer?.bytes ?? new Uint8Array());
    const lost = sent.slice(0, 100).filter((p) => p.lost).length;
    expect(groups).toHaveLength(1);
    expect((groups[0]?.matched ?? 0) + (groups[0]?.multi ?? 0)).toBeGreaterThanOrEqual(100 - lost);
    expect(values?.kind).toHaveLength(100);
    const told = JSON.parse(new TextDecoder().decode(facts?.bytes)) as AskedFacts;
    expect(told.records.point).toBe("B");
    expect(told.records.asked).toBeGreaterThan(3);
  });

  it("answers flows in their order, each with its IPIDs", async () => {
    const spec = FlowKeySpec.parse();
    const flows = [3, 0].map((n) => ({
      words: encodeFlowKey(spec, parseFlowKey(`udp 10.${n % 2}.0.${n + 1}:${2000 + n} > 10.9.0.9:53`)),
      ranges: n === 3 ? [{ first: 100, last: 149 }] : [],
    }));
    const packets = { kind: "flows" as const, flows };
    const question = encodeQuestion({ fromNs: FIRST_NS, toNs: LAST_NS, values: false, packets });
    const response = await post(question, PACKET_QUESTION_TYPE, "?point=B");
    const [answer] = splitPieces(new Uint8Array(await response.arrayBuffer()));
    const [part, whole] = decodeAnswer(answer?.bytes ?? new Uint8Array()).groups;
    const arrived = (n: number, until: number) =>
      sent.filter((p, i) => i % 8 === n && !p.lost && p.ipid < until).length;
    expect((part?.matched ?? 0) + (part?.multi ?? 0)).toBe(arrived(3, 150));
    expect((whole?.matched ?? 0) + (whole?.multi ?? 0)).toBe(arrived(0, 65_536));
  });

  it("refuses what is no question, by name, before anything is allocated for it", async () => {
    const good = encodeQuestion({
      ...{ fromNs: FIRST_NS, toNs: LAST_NS, values: true },
      packets: { kind: "digests", digests: keys() },
    });
    const claims = Uint8Array.from(good);
    claims.set([0xff, 0xff, 0xff, 0x7f], 22);
    const wrong = [
      new Uint8Array(3),
      good.subarray(0, 100),
      claims,
      Uint8Array.from(good, (b, i) => (i === 4 ? 9 : b)),
    ];
    for (const bytes of wrong) {
      const response = await post(bytes, PACKET_QUESTION_TYPE);
      expect(response.status).toBe(400);
      expect(((await response.json()) as { message: string }).message).toMatch(/packet question/);
    }
    expect((await post("{}", "text/html")).status).toBe(415);
  });

  it("many questions at once: a line for each, as they are answered; a wrong one spoils itself only", async () => {
    const questions = [
      { digests: digests.slice(0, 3) },
      { digests: ["not sixteen dig."] },
      { flows: [flow], point: "nobody" },
      { flows: [flow] },
    ];
    const response = await post(JSON.stringify({ questions }), "application/json");
    expect(response.headers.get("content-type")).toMatch(/ndjson/);
    const lines = (await response.text())
      .trim()
      .split("\n")
      .map((l) => JSON.parse(l) as Record<string, unknown>);
    expect(lines).toHaveLength(4);
    expect(lines.map((l) => l["format"] ?? l["error"])).toEqual([
      "hoptime.packet-answer/1",
      expect.stringMatching(/bad/),
      "no-records",
      "hoptime.packet-answer/1",
    ]);
  });
});
