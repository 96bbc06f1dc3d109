import { execFileSync } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { datapathMissing } from "../../../tests/support/datapath.ts";
import { namespacesMissing } from "../../../tests/support/namespaces.ts";
import { FlowKeySpec } from "../flow/flow-key.ts";
import { attach, PLACES, xdpState } from "./bpf-link.ts";
import { Datapath } from "./datapath.ts";
import { KernelSketch } from "./kernel-sketch.ts";
import { runsOf, testRun } from "./test-run.ts";

const missing = (await datapathMissing()) ?? namespacesMissing();
if (missing) console.warn(`skipped: eBPF programs loaded and attached (${missing})`);

const [ONE, OTHER] = [`hteb${process.pid % 100000}a`, `hteb${process.pid % 100000}b`];
const KEY = new Uint8Array(4);
const PROGRAMS = ["count_xdp", "count_tc", "count_socket"];
const OF = {
  xdp: "count_xdp",
  "tc-ingress": "count_tc",
  "tc-egress": "count_tc",
  socket: "count_socket",
} as const;
/** Makes both ends send packets (IPv6 neighbour discovery). */
function flap(): void {
  for (const state of ["down", "up"]) execFileSync("ip", ["link", "set", OTHER, state]);
}
const three = () => new Uint8Array(new Uint32Array([3, 0]).buffer);

describe.skipIf(missing)("a compiled object", () => {
  beforeAll(() => {
    execFileSync("ip", ["link", "add", ONE, "type", "veth", "peer", "name", OTHER]);
    for (const name of [ONE, OTHER]) execFileSync("ip", ["link", "set", name, "up"]);
  });
  afterAll(() => execFileSync("ip", ["link", "del", ONE]));

  const load = () =>
    Datapath.load({
      what: ONE,
      object: "empty",
      programs: PROGRAMS,
      constants: { ".rodata.config": three() },
      entries: { counted: 2 },
    });

  test("is loaded with its constants and sizes, run on a frame, and read by key, by all keys and in place", async () => {
    const datapath = await load();
    try {
      const { retval } = testRun(datapath.bpf, datapath.program("count_xdp"), new Uint8Array(64), {
        repeat: 10,
      });
      expect(retval).toBe(2);
      const counted = datapath.map("counted");
      expect(counted.maxEntries).toBe(2);
      const sum = (values: Uint8Array[]) => values.reduce((n, value) => n + (value[0] ?? 0), 0);
      expect(sum(counted.lookupPerCpu(KEY))).toBe(30);
      let [entries, total] = [0, 0];
      counted.entries(
        4,
        (_, values, count) => {
          entries += count;
          for (const byte of values) total += byte;
        },
        { perCpu: true },
      );
      expect([entries, total]).toEqual([2, 30]);
      expect(new BigUint64Array(datapath.map("shared").memory(), 0, 1)[0]).toBe(30n);
      expect(runsOf(datapath.bpf, datapath.program("count_xdp")).runs).toBe(0);
    } finally {
      datapath.close();
    }
  });

  test.each(PLACES)("is attached at %s beside what is there, and gone when it is closed", async (place) => {
    const datapath = await load();
    const second = await load();
    const attached = attach(datapath.bpf, ONE, place, datapath.program(OF[place]));
    const memory = new BigUint64Array(datapath.map("shared").memory(), 0, 1);
    try {
      expect(xdpState(datapath.bpf, ONE).mode).toBe(place === "xdp" ? "native" : null);
      expect(attached.mode).toBe(place === "xdp" ? "native" : null);
      flap();
      for (let i = 0; i < 1200 && memory[0] === 0n; i++) await sleep(50);
      expect(memory[0]).toBeGreaterThan(0n);
      const again = () => attach(second.bpf, ONE, place, second.program(OF[place]));
      if (place === "xdp") expect(again).toThrow("another XDP program is attached, and stays");
      else again().close();
      attached.close();
      expect(xdpState(datapath.bpf, ONE).mode).toBe(null);
      const before = memory[0];
      flap();
      await sleep(100);
      expect(memory[0]).toBe(before);
    } finally {
      datapath.close();
      second.close();
    }
  });

  test("is refused by name where it does not exist, or the interface does not", async () => {
    await expect(Datapath.load({ what: "x", object: "none", programs: [] })).rejects.toThrow(
      "the eBPF programs of this build are missing",
    );
    const datapath = await load();
    expect(() => attach(datapath.bpf, "hteb-none", "xdp", datapath.program("count_xdp"))).toThrow(
      "hteb-none: no such interface",
    );
    datapath.close();
  });

  test("of sketches takes no frame for merged ones that the interface's MTU allows, also when that has changed", async () => {
    const sketch = await KernelSketch.load({
      ...{ name: ONE, place: "xdp", cover: 64, seed: 1n, direction: "in", sets: 2, below: 1 },
      ...{ mask: FlowKeySpec.parse("5tuple").maskWords(), filter: null, parts: [] },
    });
    try {
      const send = () => {
        testRun(sketch.datapath.bpf, sketch.datapath.program("observe_xdp"), new Uint8Array(3000));
        return sketch.counts(0).merged;
      };
      expect(sketch.mtu).toBe(1500);
      expect(send()).toBe(1);
      execFileSync("ip", ["link", "set", ONE, "mtu", "3400"]);
      sketch.lookAtMtu();
      expect(sketch.mtu).toBe(3400);
      expect(send()).toBe(1);
    } finally {
      sketch.close();
    }
  });
});
