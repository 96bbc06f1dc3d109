/**
 * An interface that is removed and created again while it is observed, as with tunnels and ports of virtual machines: two successive veth pairs with the same
 * name. And an interface that is idle from the start.
 */
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeEach, expect, test } from "vitest";
import { RecordArchive } from "../../src/archive/archive.ts";
import { findLibc } from "../../src/capture/source/interface/libc.ts";
import { NetworkLab, namespacesMissing, udpSender } from "../support/namespaces.ts";
import { startObserver } from "../support/observer-process.ts";

const cli = join(import.meta.dirname, "..", "..", "dist", "cli", "main.js");
const missing =
  namespacesMissing() ??
  ((await findLibc()) === null ? "koffi is not installed" : null) ??
  (existsSync(cli) ? null : "dist/cli/main.js is not built");
if (missing) console.warn(`skipped: interfaces that come back (${missing})`);
const scratch = mkdtempSync(join(tmpdir(), "hoptime-returning-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));
let lab: NetworkLab;
beforeEach(() => {
  lab = new NetworkLab();
});
afterEach(() => lab.close());

function makePair(): void {
  const ip = (...args: string[]) => lab.run("r", "ip", ...args);
  ip("link", "add", "near", "type", "veth", "peer", "name", "far");
  for (const device of ["near", "far"]) ip("link", "set", device, "up");
  ip("addr", "add", "10.77.0.1/24", "dev", "far");
  ip("neigh", "add", "10.77.0.9", "lladdr", "02:00:00:00:00:09", "dev", "far");
}

/** Returns the number of IP packets that the interface received according to its own counter. */
async function send(): Promise<number> {
  const sender = lab.start("r", process.execPath, "-e", udpSender("10.77.0.9", 9000, 500, 200, 1));
  await new Promise((resolve) => sender.on("exit", resolve));
  return Number(lab.run("r", "cat", "/sys/class/net/near/statistics/rx_packets"));
}

test.skipIf(missing !== null)(
  "an interface that is removed and comes back is observed again",
  { timeout: 120_000 },
  async () => {
    lab.addHost("r");
    lab.run("r", "sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1");
    makePair();
    const observer = await startObserver(
      lab,
      ...(["r", cli, "near", "--direction", "in", "--promiscuous"] as const),
      ...["--point", "P", "--to", join(scratch, "records"), "--json"],
    );
    const before = await send();
    await sleep(300);
    lab.run("r", "ip", "link", "del", "near");
    await observer.says("removed; waiting for an interface of that name");
    makePair();
    await observer.says("is there again");
    const after = await send();
    await sleep(300);
    const { out, err, code } = await observer.end();
    expect(code, err).toBe(0);
    expect(Math.min(before, after)).toBeGreaterThan(200);
    const report = JSON.parse(out);
    expect(report.captures).toMatchObject([{ packets: before + after, dropped: 0 }]);
    expect(report.notes.join("\n")).toContain("near: removed and created again 1 time");
  },
);

test.skipIf(missing !== null)(
  "an interface that is down says so, and is observed when it is up",
  { timeout: 120_000 },
  async () => {
    lab.addHost("r");
    lab.run("r", "sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1");
    makePair();
    lab.run("r", "ip", "link", "set", "near", "down");
    const observer = await startObserver(
      lab,
      ...(["r", cli, "near", "--direction", "in", "--promiscuous"] as const),
      ...["--point", "P", "--to", join(scratch, "down"), "--json"],
    );
    await observer.says("near: is down, no packets until it is up (ip link set near up)");
    lab.run("r", "ip", "link", "set", "near", "up");
    await observer.says("near: is up");
    const sent = await send();
    lab.run("r", "ip", "link", "set", "near", "down");
    await sleep(1500);
    const { out, err, code } = await observer.end();
    expect(code, err).toBe(0);
    expect(sent).toBeGreaterThan(200);
    const report = JSON.parse(out);
    expect(report.captures).toMatchObject([{ packets: sent, dropped: 0 }]);
    expect(report.notes.join("\n")).toContain("near: was down 2 times, and is: no packets came then");
  },
);

test.skipIf(missing !== null)(
  "epochs are observed from the start of observation on, though the first packet comes later",
  { timeout: 120_000 },
  async () => {
    lab.addHost("r");
    lab.run("r", "sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1");
    makePair();
    const records = join(scratch, "silent");
    const observer = await startObserver(
      lab,
      ...(["r", cli, "near", "--direction", "in", "--point", "P", "--epoch", "250ms"] as const),
      ...["--to", records, "--json"],
    );
    const silentFromNs = 1_000_000n * BigInt(Date.now());
    await sleep(2000);
    const silentUntilNs = 1_000_000n * BigInt(Date.now());
    const sent = await send();
    await sleep(300);
    const { code, err } = await observer.end();
    expect(code, err).toBe(0);
    const archive = RecordArchive.open(records);
    const stored = archive.list().entries.map((entry) => archive.readRecord(entry));
    archive.close();
    expect(stored.reduce((n, { counters }) => n + counters.packets, 0)).toBe(sent);
    // There is a record for every epoch between the two times, without packets and drops.
    const silent = stored.filter(
      ({ epoch }) => epoch.startNs >= silentFromNs && epoch.endNs <= silentUntilNs,
    );
    expect(silent.length).toBe(
      Number(silentUntilNs / 250_000_000n - (silentFromNs + 249_999_999n) / 250_000_000n),
    );
    for (const { counters } of silent) expect(counters).toMatchObject({ packets: 0, dropped: 0 });
  },
);
