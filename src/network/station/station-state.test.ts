import { describe, expect, it } from "vitest";
import { crc32c } from "../../base/bytes.ts";
import { Random } from "../../base/random.ts";
import { parseTopology } from "../topology/topology-format.ts";
import { encodeMsp, type MeasurementStatePacket, type MspEntry } from "./msp.ts";
import { StationState, type StationStateOptions } from "./station-state.ts";

const SECOND_NS = 1_000_000_000n;
const HOLD_NS = 180n * SECOND_NS;
const START_NS = 1_700_000_000n * SECOND_NS;

/** A - B - C in a row, with an alternative path over D; networks behind A and C. */
const MAP = JSON.stringify({
  format: "hoptime.topology/1",
  name: "lab",
  routers: ["A", "B", "C", "D"],
  links: [
    { from: "A", to: "B", weight: 1, fromPort: "eth1", toPort: "eth0" },
    { from: "B", to: "C", weight: 1, fromPort: "eth1", toPort: "eth0" },
    { from: "A", to: "D", weight: 5, fromPort: "eth2", toPort: "eth0" },
    { from: "D", to: "C", weight: 5, fromPort: "eth1", toPort: "eth2" },
  ],
  hosts: [
    { name: "10.1.0.0/16", router: "A", port: "eth7" },
    { name: "10.3.0.0/16", router: "C", port: "eth7" },
  ],
});

function start(options: Partial<StationStateOptions> = {}, map = MAP) {
  let nowNs = START_NS;
  const now = () => nowNs;
  const topology = parseTopology(map, "lab.json");
  const station = new StationState(topology, { holdNs: HOLD_NS, now, ...options });
  const sequences = new Map<string, number>();
  const packet = (reporter: string, change: Partial<MeasurementStatePacket> = {}): MeasurementStatePacket => {
    const sequence = (sequences.get(reporter) ?? 0) + 1;
    sequences.set(reporter, change.sequence ?? sequence);
    return {
      ...{ reporter, reporterKind: "m-router", sequence, entries: [] },
      ...{ epochStartNs: nowNs - SECOND_NS, epochEndNs: nowNs },
      ...change,
    };
  };
  const announce = (reporter: string, change: Partial<MeasurementStatePacket> = {}) =>
    station.take(encodeMsp(packet(reporter, change)), "192.0.2.1:1");
  const pass = (seconds: number) => {
    nowNs += BigInt(seconds) * SECOND_NS;
    station.tick();
  };
  const again = () =>
    new StationState(
      topology,
      { holdNs: HOLD_NS, now, ...options },
      JSON.parse(JSON.stringify(station.snapshot())),
    );
  return { station, announce, packet, pass, again, now };
}

const names = (station: StationState, by: string) =>
  station
    .segments()
    .filter((s) => s.by === by && s.untilNs === null)
    .map((s) => `${s.from} > ${s.to}`);

describe("segments follow from the map and the m-routers that announce themselves", () => {
  it("without any, everything is to be probed; with all on the path, taps measure it piece by piece", () => {
    const { station, announce } = start();
    expect(names(station, "taps")).toEqual([]);
    expect(names(station, "probes")).toContain("A > C");
    for (const router of ["A", "B", "C"]) expect(announce(router)).toBe(true);
    const forth = [
      "A[eth7] > A[eth1]",
      "A[eth1] > B[eth0]",
      "B[eth0] > B[eth1]",
      "B[eth1] > C[eth0]",
      "C[eth0] > C[eth7]",
    ];
    const back = [
      "C[eth7] > C[eth0]",
      "C[eth0] > B[eth1]",
      "B[eth1] > B[eth0]",
      "B[eth0] > A[eth1]",
      "A[eth1] > A[eth7]",
    ];
    expect(new Set(names(station, "taps"))).toEqual(new Set([...forth, ...back]));
    const planned = station.plannedSegments();
    expect(planned.find((s) => s.from === "B[eth0]" && s.to === "B[eth1]")).toEqual({
      ...{ from: "B[eth0]", to: "B[eth1]" },
      filter: "src net 10.1.0.0/16 and dst net 10.3.0.0/16",
    });
    // D has no m-router: links to it are probed, from the m-router's port.
    expect(names(station, "probes")).toEqual(
      expect.arrayContaining(["A[eth2] > D", "C[eth2] > D", "D > A[eth2]", "D > C[eth2]"]),
    );
    expect(names(station, "probes")).toHaveLength(4);
  });

  it("over a router that is not upgraded they are virtual links", () => {
    const { station, announce } = start();
    announce("A");
    announce("C");
    expect(station.segments().find((s) => s.from === "A[eth1]" && s.to === "C[eth0]")).toMatchObject({
      ...{ kind: "virtual-link", by: "taps", routers: ["A", "B", "C"] },
    });
  });

  it("without networks on the map only whole links are asked for, and the others say why not", () => {
    const { station, announce } = start({}, "A,B\nB,C\n");
    for (const router of ["A", "B", "C"]) announce(router);
    expect(station.plannedSegments()).toContainEqual({ from: "A[to B]", to: "B[from A]" });
    expect(station.plannedSegments()).toHaveLength(4);
    const two = start({}, "A,B\nB,C\n");
    two.announce("A");
    two.announce("C");
    expect(two.station.plannedSegments()).toEqual([]);
    expect(two.station.segments().find((s) => s.by === "none")?.reason).toMatch(/no networks/);
  });

  it("pairs of networks with two equal ways are left out, and counted", () => {
    const equal = MAP.replaceAll('"weight":5', '"weight":1');
    const { station, announce } = start({}, equal);
    for (const router of ["A", "B", "C", "D"]) announce(router);
    expect(station.plannedSegments()).toEqual([]);
    expect(station.ambiguousPairs).toBe(2);
  });

  it("m-routers of the map count without a word", () => {
    const { station } = start({}, MAP.replace('"hosts"', '"mRouters":["A","B","C"],"hosts"'));
    expect(station.plannedSegments()).toHaveLength(10);
  });
});

describe("what does not come is noticed", () => {
  it("a silent router expires after the hold time; its segments are held as long again beside the new ones", () => {
    const { station, announce, pass } = start();
    for (const router of ["A", "B", "C"]) announce(router);
    for (let minute = 0; minute < 3; minute++) {
      pass(60);
      announce("A");
      announce("C");
    }
    expect(station.routers.map((r) => r.name)).toEqual(["A", "C"]);
    const inner = () => station.segments().find((s) => s.from === "B[eth0]" && s.to === "B[eth1]");
    expect(inner()?.untilNs).not.toBeNull();
    expect(names(station, "taps")).toContain("A[eth1] > C[eth0]");
    expect(station.plannedSegments().map((s) => s.from)).toContain("B[eth0]");
    for (let minute = 0; minute < 3; minute++) {
      announce("A");
      announce("C");
      pass(60);
    }
    expect(inner()).toBeUndefined();
    expect(names(station, "taps")).toContain("A[eth1] > C[eth0]");
  });

  it("one that comes back in time has its segments again", () => {
    const { station, announce, pass } = start();
    for (const router of ["A", "B", "C"]) announce(router);
    pass(170);
    announce("A");
    announce("C");
    pass(11);
    announce("B");
    expect(station.segments().find((s) => s.from === "B[eth0]" && s.to === "B[eth1]")?.untilNs).toBeNull();
  });

  it("lost, repeated and late packets are counted, and change nothing else", () => {
    const { station, announce } = start();
    for (const sequence of [1, 2, 5, 5, 4, 6]) announce("A", { sequence });
    expect(station.routers[0]).toMatchObject({ sequence: 6, lost: 1, repeated: 1, restarts: 0 });
    expect(station.counts).toMatchObject({ received: 6, accepted: 4, lost: 1, repeated: 1, late: 1 });
  });

  it("a router that counts anew, later, has been restarted; sequence numbers may wrap", () => {
    const { station, announce, pass } = start();
    announce("A", { sequence: 2 ** 32 - 1 });
    announce("A", { sequence: 0 });
    expect(station.routers[0]).toMatchObject({ lost: 0, restarts: 0 });
    announce("A", { sequence: 500 });
    pass(10);
    announce("A", { sequence: 1 });
    expect(station.routers[0]).toMatchObject({ sequence: 1, restarts: 1 });
  });
});

const entry = (kind: MspEntry["kind"], from: string, to: string): MspEntry => ({
  ...{ kind, from, to, packets: 10, lost: 1 },
  delay: { meanNs: 5, lowNs: 4, highNs: 6 },
});

describe("what is made up is refused by name", () => {
  it("other routers' segments, points that are not on the map, unknown routers, times to come", () => {
    const { station, announce, now } = start();
    announce("A", { entries: [entry("link", "A[eth1]", "B[eth0]"), entry("router", "A[eth7]", "A[eth1]")] });
    const forged: [MspEntry, RegExp][] = [
      [entry("link", "B[eth1]", "C[eth0]"), /neither end is at A/],
      [entry("router", "B[eth0]", "B[eth1]"), /neither end is at A/],
      [entry("router", "A[eth1]", "B[eth0]"), /inside a router/],
      [entry("link", "A[eth1]", "A[eth2]"), /two routers/],
      [entry("link", "A[eth9]", "B[eth0]"), /no such point/],
    ];
    for (const [one, why] of forged) {
      expect(announce("A", { entries: [one] })).toBe(false);
      expect(station.problems.at(-1)).toMatch(why);
    }
    expect(announce("nobody")).toBe(false);
    expect(announce("B", { epochEndNs: now() + 7200n * SECOND_NS })).toBe(false);
    expect(
      announce("B", { reporterKind: "m-server", entries: [entry("router", "B[eth0]", "B[eth1]")] }),
    ).toBe(false);
    expect(station.counts).toMatchObject({ forged: 6, unknown: 1, ahead: 1, accepted: 1 });
    expect(station.routers.map((r) => r.name)).toEqual(["A"]);
    expect(station.segments().find((s) => s.measured)?.measured).toMatchObject({ packets: 10, lost: 1 });
  });

  it("with a key, everything without it", () => {
    const key = new TextEncoder().encode("0123456789abcdef");
    const { station, packet } = start({ key });
    expect(station.take(encodeMsp(packet("A")), "x")).toBe(false);
    expect(station.take(encodeMsp(packet("A"), new TextEncoder().encode("another key, longer")), "x")).toBe(
      false,
    );
    expect(station.take(encodeMsp(packet("A"), key), "x")).toBe(true);
    expect(station.counts).toMatchObject({ unauthenticated: 2, accepted: 1 });
  });

  it("10,000 damaged datagrams, half of them with a checksum that is right again", () => {
    const { station, packet } = start();
    const random = new Random("damaged");
    const good = encodeMsp(packet("A", { entries: [entry("link", "A[eth1]", "B[eth0]")] }));
    for (let n = 0; n < 10_000; n++) {
      const bytes = good.slice(0, random.below(8) === 0 ? random.below(good.length) : good.length);
      for (let k = 1 + random.below(4); k > 0 && bytes.length > 0; k--)
        bytes[random.below(bytes.length)] = random.below(256);
      if (n % 2 === 0 && bytes.length > 8) {
        const end = bytes.length - 4;
        new DataView(bytes.buffer, bytes.byteOffset).setUint32(end, crc32c(bytes.subarray(0, end)), true);
      }
      station.take(bytes, "192.0.2.66:6");
    }
    const { received, ...rest } = station.counts;
    expect(received).toBe(10_000);
    expect(rest.malformed).toBeGreaterThan(5000);
    expect(station.problems.length).toBeLessThanOrEqual(20);
    // Everything accepted is from routers of the map.
    for (const { name } of station.routers) expect(["A", "B", "C", "D"]).toContain(name);
  });
});

describe("a restart", () => {
  it("keeps routers, what they reported and what is held; silence counts from when somebody listens again", () => {
    const { station, announce, pass, again } = start();
    announce("A", { entries: [entry("link", "A[eth1]", "B[eth0]")] });
    announce("B");
    announce("C");
    pass(100);
    const after = again();
    expect(after.snapshot()).toEqual(station.snapshot());
    expect(after.plannedSegments()).toEqual(station.plannedSegments());
    pass(10_000);
    const late = again();
    // The station before had removed them; one that was not running has not.
    expect(late.routers).toEqual(station.routers);
    expect(after.routers).toHaveLength(3);
    after.tick();
    expect(after.routers).toHaveLength(0);
  });
});
