import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { FormatError } from "../../base/errors.ts";
import { decodeMsp, encodeMsp, type MeasurementStatePacket } from "../station/msp.ts";
import { routerIndex } from "../topology/topology.ts";
import { parseTopology } from "../topology/topology-format.ts";
import { deployment, measurementCost, segmentsOf } from "./deployment.ts";
import { memberLabel, mSets } from "./m-sets.ts";
import { equalCostPaths } from "./shortest-paths.ts";

/**
 * The six routers of the paper's figures 7 and 8, with C and F upgraded. The figures are not in the available text, so the edges and costs are reconstructed:
 * the smallest set that gives the printed m-sets and two equal-cost paths from F to D.
 */
const figure7 = () => parseTopology("A,B,2\nA,F,2\nB,F,3\nC,F,3\nC,D,2\nD,E,1\nE,F,4\n", "figure 7");
const labels = (t: ReturnType<typeof figure7>, node: string, pairs: "once" | "twice" = "once") =>
  mSets(t, deployment(t, ["C", "F"]), { pairs })
    .find((s) => s.node === node)!
    .members.map(memberLabel);

describe("m-sets of figure 8", () => {
  it("M_A = {B, F}: the tree is cut at the m-router F", () => {
    expect(labels(figure7(), "A")).toEqual(["B", "F"]);
  });

  it("M_C = {F, D, E}: an m-server ends a path, it does not cut the tree", () => {
    expect(labels(figure7(), "C").sort()).toEqual(["D", "E", "F"]);
  });

  it("M_F = {A, B, E, D_2}: D over C is C's business, D over E is not", () => {
    expect(labels(figure7(), "F").sort()).toEqual(["A", "B", "D_2", "E"]);
    const t = figure7();
    const d2 = mSets(t, deployment(t, ["C", "F"]))
      .find((s) => s.node === "F")!
      .members.find((m) => m.target === "D")!;
    expect([d2.path, d2.rank, d2.of]).toEqual([["F", "E", "D"], 2, 2]);
  });

  it("the link of two m-routers is listed once, as in the figure; twice when asked", () => {
    // By the paper's rule alone C belongs to M_F as well: the tree of F is cut at C. The figure prints it in M_C only.
    expect(labels(figure7(), "F", "twice").sort()).toEqual(["A", "B", "C", "D_2", "E"]);
    expect(labels(figure7(), "C", "twice").sort()).toEqual(["D", "E", "F"]);
  });

  it("m-sets together are what the planner counts as segments", () => {
    const t = figure7();
    const deployed = deployment(t, ["C", "F"]);
    const members = mSets(t, deployed, { pairs: "twice" }).flatMap((s) => s.members);
    const cost = measurementCost(t, deployed);
    expect(cost.segments).toBe(members.length);
    expect(cost.probeHops).toBe(members.reduce((sum, m) => sum + m.path.length - 1, 0));
    // C has two links, F has four.
    expect(cost.internal).toBe(2 ** 2 + 4 ** 2);
  });

  it("a one-way path between m-routers is listed by its own end even when its name comes second", () => {
    const t = parseTopology("C,F,1\nF,C,9\nF,X,1\nX,C,1\nC,X,9\nX,F,9\n", "asymmetric");
    const sets = mSets(t, deployment(t, ["C", "F"]));
    const f = sets.find((s) => s.node === "F")!.members.find((m) => m.target === "C")!;
    expect(f.path).toEqual(["F", "X", "C"]);
  });

  it("only those that measure have and are in m-sets", () => {
    const t = figure7();
    const deployed = deployment(t, ["F"], ["A", "D"]);
    expect(mSets(t, deployed).map((s) => [s.node, s.kind, s.members.map(memberLabel)])).toEqual([
      ["A", "m-server", ["F"]],
      ["F", "m-router", ["A", "D", "D_2"]],
      ["D", "m-server", ["F", "F_2"]],
    ]);
    expect(measurementCost(t, deployed)).toMatchObject({ segments: 6, probeHops: 10 });
  });

  it("a node that would need too many sessions is an error, not an endless run", () => {
    const ring = parseTopology("A,B\nB,C\nA,D\nD,C\n", "ring");
    expect(() => mSets(ring, deployment(ring, []), { limit: 1 })).toThrow("more than 1");
  });
});

describe("segments of a path", () => {
  it("between hosts over two m-routers: link, router, link, router, link (figure 1)", () => {
    const t = parseTopology("S1,S2\n", "figure 1");
    const path = equalCostPaths(t, 0, 1)[0]!;
    const segments = segmentsOf(t, deployment(t, ["S1", "S2"]), path, { fromHost: "A", toHost: "B" });
    expect(segments.map((s) => `${s.kind}: ${s.from} > ${s.to}`)).toEqual([
      "link: A > S1[A]",
      "router: S1[A] > S1[to S2]",
      "link: S1[to S2] > S2[from S1]",
      "router: S2[from S1] > S2[B]",
      "link: S2[B] > B",
    ]);
  });

  it("runs over routers that are not upgraded as one virtual link", () => {
    const t = figure7();
    const deployed = deployment(t, ["C"]);
    const [path] = equalCostPaths(t, routerIndex(t, "A"), routerIndex(t, "D"));
    const segments = segmentsOf(t, deployed, path!);
    expect(segments.map((s) => [s.kind, s.from, s.to, s.hops])).toEqual([
      ["virtual-link", "A", "C[from F]", 2],
      ["router", "C[from F]", "C[to D]", 0],
      ["link", "C[to D]", "D", 1],
    ]);
  });

  it("always join up, and cover each hop once", () => {
    const t = figure7();
    fc.assert(
      fc.property(fc.subarray(["A", "B", "C", "D", "E", "F"]), fc.nat(5), fc.nat(5), (upgraded, a, b) => {
        fc.pre(a !== b);
        for (const path of equalCostPaths(t, a, b)) {
          const segments = segmentsOf(t, deployment(t, upgraded), path);
          for (let i = 1; i < segments.length; i++) expect(segments[i]!.from).toBe(segments[i - 1]!.to);
          expect(segments.reduce((sum, s) => sum + s.hops, 0)).toBe(path.links.length);
          expect(new Set(segments.map((s) => s.from)).size).toBe(segments.length);
        }
      }),
      { numRuns: 200, seed: 21 },
    );
  });

  it("numbers the ports of parallel links, and takes port names from the map", () => {
    const t = parseTopology("A,B\nA,B\n", "parallel");
    const ports = equalCostPaths(t, 0, 1).map((p) => segmentsOf(t, deployment(t, ["A", "B"]), p)[0]!.from);
    expect(ports).toEqual(["A[to B#1]", "A[to B#2]"]);
  });
});

describe("measurement state packets", () => {
  const text = fc.string({ unit: "grapheme", maxLength: 12 });
  const ns = fc.double({ noNaN: true, noDefaultInfinity: true });
  const count = fc.nat(Number.MAX_SAFE_INTEGER);
  const entry = fc.record(
    {
      kind: fc.constantFrom("router" as const, "link" as const, "virtual-link" as const),
      from: text,
      to: text,
      packets: count,
      lost: count,
      delay: fc.record({ meanNs: ns, lowNs: ns, highNs: ns }),
      stdevNs: ns,
    },
    { requiredKeys: ["kind", "from", "to", "packets", "lost"] },
  );
  const packets: fc.Arbitrary<MeasurementStatePacket> = fc.record({
    reporter: text,
    reporterKind: fc.constantFrom("m-router" as const, "m-server" as const),
    sequence: fc.nat(0xffffffff),
    epochStartNs: fc.bigInt(-(2n ** 62n), 0n),
    epochEndNs: fc.bigInt(0n, 2n ** 62n),
    entries: fc.array(entry, { maxLength: 5 }),
  });
  const example: MeasurementStatePacket = {
    reporter: "C",
    reporterKind: "m-router",
    sequence: 7,
    epochStartNs: 1_700_000_000_000_000_000n,
    epochEndNs: 1_700_000_001_000_000_000n,
    entries: [
      {
        kind: "router",
        from: "C[a]",
        to: "C[b]",
        packets: 1000,
        lost: 2,
        delay: { meanNs: 5, lowNs: 4, highNs: 6 },
        stdevNs: 1.5,
      },
      { kind: "virtual-link", from: "C", to: "D", packets: 0, lost: 10 },
    ],
  };

  it("come back as they were sent", () => {
    fc.assert(
      fc.property(packets, (p) => {
        expect(decodeMsp(encodeMsp(p))).toEqual(p);
      }),
      { numRuns: 200, seed: 22 },
    );
  });

  it("have the bytes of version 1 for ever", () => {
    expect(Buffer.from(encodeMsp(example)).toString("hex")).toMatchInlineSnapshot(
      `"484d535001000700000000002a36fe9c971700cac471fe9c9717014302000304435b615d04435b625de80702000000000000144000000000000010400000000000001840000000000000f83f020001430144000accf2bc5a"`,
    );
  });

  it("are refused when any byte is changed or missing", () => {
    const bytes = encodeMsp(example);
    for (let i = 0; i < bytes.length; i++) {
      const changed = bytes.slice();
      changed[i]! ^= 0x10;
      expect(() => decodeMsp(changed), `byte ${i}`).toThrow(FormatError);
      expect(() => decodeMsp(bytes.subarray(0, i)), `cut at ${i}`).toThrow(FormatError);
    }
  });

  it("of another version are refused by name", () => {
    const bytes = encodeMsp(example);
    bytes[4] = 3;
    expect(() => decodeMsp(bytes, "x.msp")).toThrow(
      "x.msp: at byte 4: version 3; this program reads 1 and 2",
    );
  });

  it("with a key are taken from nobody else, and not by those who do not have it", () => {
    const key = new TextEncoder().encode("sixteen bytes or more");
    const signed = encodeMsp(example, key);
    expect(decodeMsp(signed, "x", key)).toEqual(example);
    expect(() => decodeMsp(signed)).toThrow("no key is known here");
    expect(() => decodeMsp(encodeMsp(example), "x", key)).toThrow("not authenticated");
    expect(() => decodeMsp(signed, "x", new TextEncoder().encode("another key, as long"))).toThrow(
      "not authenticated by the key",
    );
    for (let i = 0; i < signed.length; i++) {
      const changed = signed.slice();
      changed[i]! ^= 0x10;
      expect(() => decodeMsp(changed, "x", key), `byte ${i}`).toThrow(FormatError);
      expect(() => decodeMsp(signed.subarray(0, i), "x", key), `cut at ${i}`).toThrow(FormatError);
    }
  });
});
