/** One plan for all taps, set at the collector. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeEach, describe, expect, it, vi } from "vitest";
import { RecordArchive } from "../../src/archive/archive.ts";
import { observeCommand } from "../../src/cli/observe.ts";
import { PlanFollower, plannedFlags } from "../../src/cli/planned.ts";
import { startServer } from "../../src/server/server.ts";
import { checkTapPlan, TapPlanStore } from "../../src/server/tap-plan.ts";
import { type SmallPacket, writePcap } from "../support/small-pcap.ts";

const root = mkdtempSync(join(tmpdir(), "hoptime-plan-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));
let nowNs = 0n;
beforeEach(() => {
  nowNs = 1_700_000_000_123_000_000n;
});

describe("a plan", () => {
  it("counts at once where there was none, and from a whole minute on where it changes another", async () => {
    const path = join(root, "plan.json");
    const store = new TapPlanStore(path, () => nowNs);
    expect(store.state).toMatchObject({ version: 0, plan: null, next: null });
    await store.set({ estimators: ["lda"] });
    expect(store.state).toMatchObject({ version: 1, plan: { estimators: ["lda"] }, next: null });
    const { next } = await store.set({ estimators: ["lda", "lds"] });
    const fromNs = BigInt(next?.fromNs ?? 0);
    expect(fromNs % 60_000_000_000n).toBe(0n);
    expect(fromNs - nowNs).toBeGreaterThanOrEqual(30_000_000_000n);
    expect(store.state.plan).toEqual({ estimators: ["lda"] });
    // Another process reads the same plan, and the change takes effect at its time.
    const again = new TapPlanStore(path, () => nowNs);
    expect(again.state).toEqual(store.state);
    nowNs = fromNs;
    expect(again.state).toMatchObject({ version: 2, plan: { estimators: ["lda", "lds"] }, next: null });
  });

  it("that cannot be followed is refused by name", () => {
    for (const [plan, word] of [
      [{ estimators: ["nobody"] }, "nobody"],
      [{ estimators: [] }, "estimators"],
      [{ estimators: ["lda"], parameters: { lda: "banks=1e9" } }, "banks"],
      [{ estimators: ["lda"], parameters: { lds: "rows=2" } }, "lds"],
      [{ estimators: ["lda"], epoch: "7s" }, "divides a minute"],
      [{ estimators: ["lda"], epoch: "soon" }, "duration"],
      [{ estimators: ["lda"], key: "colour" }, "colour"],
      [{ estimators: ["lda"], seed: "-1" }, "seed"],
      [{ estimators: ["lda"], filter: "tcp and and" }, "found 'and'"],
      [{ estimators: ["lda"], segments: [{ from: "A", to: "A" }] }, "two different points"],
      [
        {
          estimators: ["lda"],
          segments: [
            { from: "A", to: "B" },
            { from: "B", to: "C", filter: "tcp" },
          ],
        },
        "some do not",
      ],
      [{ estimators: ["lda"], estimator: "lda" }, "estimator"],
    ] as const)
      expect(() => checkTapPlan(plan), JSON.stringify(plan)).toThrow(word);
  });

  it("is in the words of the command line, for the point's own segments", () => {
    const segments = [
      { from: "A", to: "B", filter: "dst net 10.2.0.0/16" },
      { from: "B", to: "C", filter: "dst net 10.3.0.0/16" },
    ];
    const plan = {
      estimators: ["lda", "lds"],
      parameters: { lds: "rows=2,columns=64" },
      epoch: "250ms",
      seed: "7",
      segments,
    };
    expect(plannedFlags(plan, "A")).toEqual({
      ...{ estimators: "lda,lds", lds: "rows=2,columns=64", epoch: "250ms", seed: 7n },
      segment: ["A:B=dst net 10.2.0.0/16"],
    });
  });
});

it("a tap hears of a change when it counts, and not before", async () => {
  nowNs = BigInt(Date.now()) * 1_000_000n;
  const server = await startServer({ data: join(root, "changing"), listen: "127.0.0.1:0", now: () => nowNs });
  await server.service.setPlan({ estimators: ["lda"] });
  const follower = new PlanFollower({ url: server.url }, join(root, "changing-spool"));
  await follower.fetch();
  const changed = vi.fn();
  const unwatch = follower.watch(changed, 20);
  const { next } = await server.service.setPlan({ estimators: ["lds"] });
  await new Promise((resolve) => setTimeout(resolve, 300));
  expect(changed).not.toHaveBeenCalled();
  nowNs = BigInt(next?.fromNs ?? 0);
  await expect.poll(() => changed.mock.calls.length).toBe(1);
  unwatch();
  expect(await follower.fetch()).toEqual({ estimators: ["lds"] });
  await server.close();
});

describe("taps", () => {
  const packets: SmallPacket[] = Array.from({ length: 400 }, (_, n) => ({
    timeNs: 1_700_000_000_000_000_000n + BigInt(n) * 5_000_000n,
    ...{ src: "10.0.0.1", dst: "10.2.0.9", sport: 1000 + (n % 4), dport: 53, ipid: n },
  }));

  it("observe as the plan says, options first; its segments are watched; the last plan is kept for when the collector is away", async () => {
    const [data, file] = [join(root, "data"), join(root, "a.pcap")];
    writePcap(file, packets);
    const server = await startServer({ data, listen: "127.0.0.1:0" });
    const { url } = server;
    const plan = {
      estimators: ["lda"],
      epoch: "500ms",
      cover: 48,
      segments: [{ from: "A", to: "B", filter: "dst net 10.2.0.0/16" }],
    };
    const put = await fetch(`${url}/v1/plan`, {
      method: "PUT",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(plan),
    });
    expect(put.status).toBe(200);
    const wrong = await fetch(`${url}/v1/plan`, {
      method: "PUT",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ estimators: ["nobody"] }),
    });
    expect(wrong.status).toBe(400);
    expect(server.service.pairing.segments).toEqual([{ from: "A", to: "B", label: "A:B" }]);
    const spool = join(root, "spool");
    const print = vi.spyOn(process.stdout, "write").mockReturnValue(true);
    await observeCommand().parseAsync(
      [file, "--point", "A", "--to", url, "--spool", spool, "--cover", "64"],
      { from: "user" },
    );
    print.mockRestore();
    const archive = RecordArchive.open(join(data, "records"));
    const { entries } = archive.list();
    expect(entries).toHaveLength(4);
    const [entry] = entries;
    if (!entry) throw new Error("no record");
    expect(archive.readHead(entry).head).toMatchObject({
      estimator: "lda",
      segment: "A:B",
      cover: 64,
      filter: "dst net 10.2.0.0/16",
    });
    expect(entry.epoch.endNs - entry.epoch.startNs).toBe(500_000_000n);
    await server.close();
    expect(JSON.parse(readFileSync(join(spool, "plan.json"), "utf8"))).toMatchObject({ plan });
    const warned = vi.spyOn(process.stderr, "write").mockReturnValue(true);
    expect(await new PlanFollower({ url }, spool).fetch()).toEqual(plan);
    expect(await new PlanFollower({ url }, join(root, "nothing")).fetch()).toBeNull();
    warned.mockRestore();
  });
});
