/** `hoptime collect --config`: checked, overridden by options, read again on SIGHUP. */
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { ROOT } from "../support/demo-captures.ts";

const CLI = join(ROOT, "dist/cli/main.js");
const root = mkdtempSync(join(tmpdir(), "hoptime-collect-config-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const file = join(root, "hoptime.yaml");

it("--check names what is wrong with its place, and ends", () => {
  writeFileSync(file, `data: ${root}/data\nkeep:\n  epochs: long\n`);
  const bad = spawnSync(process.execPath, [CLI, "collect", "--config", file, "--check"], {
    encoding: "utf8",
  });
  expect(bad.status).toBe(2);
  expect(bad.stderr).toContain(`${file}:3:11: keep.epochs: 'long' is not a duration`);
  writeFileSync(file, `data: ${root}/data\n`);
  expect(
    execFileSync(process.execPath, [CLI, "collect", "--config", file, "--check"], { encoding: "utf8" }),
  ).toBe(`${file}: ok\n`);
  writeFileSync(file, `data: ${root}/data\nlisten: 0.0.0.0:8787\n`);
  const open = spawnSync(process.execPath, [CLI, "collect", "--config", file, "--check"], {
    encoding: "utf8",
  });
  expect(open.status).toBe(2);
  expect(open.stderr).toContain("0.0.0.0:8787 can be reached from other hosts");
  const none = spawnSync(process.execPath, [CLI, "collect", "--check"], { encoding: "utf8" });
  expect(none.status).toBe(2);
  expect(none.stderr).toContain("--data");
});

it("is read again on SIGHUP: what can change does, what cannot is named, and a mistake changes nothing", async () => {
  const write = (more: string, lateness = "2s") =>
    writeFileSync(file, `data: ${root}/data\nlisten: 127.0.0.1:1\nlateness: ${lateness}\n${more}`);
  write("paths: [{name: one, points: [A, B]}]\n");
  const child = spawn(process.execPath, [CLI, "collect", "--config", file, "--listen", "127.0.0.1:0"]);
  let log = "";
  child.stderr.on("data", (d: Buffer) => {
    log += d.toString();
  });
  const logged = async (text: string) => {
    while (!log.includes(text)) await new Promise((resolve) => setTimeout(resolve, 20));
  };
  try {
    await logged("collecting at");
    // The option has priority.
    const [, url = ""] = /collecting at (http:\S+),/.exec(log) ?? [];
    const paths = async () => {
      const { paths: all } = (await (await fetch(`${url}/v1/paths`)).json()) as { paths: { name: string }[] };
      return all.map((p) => p.name);
    };
    expect(await paths()).toEqual(["one"]);
    write("paths: [{name: two, points: [A, B]}]\nplan: {estimators: [lda]}\n", "9s");
    child.kill("SIGHUP");
    await logged("after a restart only: lateness");
    expect(log).toContain("settings read again: plan, paths changed");
    expect(await paths()).toEqual(["two"]);
    expect(await (await fetch(`${url}/v1/plan`)).json()).toMatchObject({ plan: { estimators: ["lda"] } });
    write("paths: [{name: three}]\n");
    child.kill("SIGHUP");
    await logged("settings not changed");
    expect(log).toContain(`${file}:4:9: paths[0]: a path has either points, or from and to`);
    expect(await paths()).toEqual(["two"]);
  } finally {
    child.kill("SIGTERM");
    await once(child, "exit");
  }
  expect(log).toContain("stopped");
});
