import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import fc from "fast-check";
import { afterAll, describe, expect, it } from "vitest";
import { shared } from "../../../tests/support/shared-maps.ts";
import { withLink } from "../../../tests/support/with-link.ts";
import { FormatError, UsageError } from "../../base/errors.ts";
import { components } from "./topology.ts";
import { topologyConfig } from "./topology-config.ts";
import { parseTopology } from "./topology-format.ts";

const names = (t: ReturnType<typeof parseTopology>) => t.routers.map((r) => r.name);

describe("edge lists", () => {
  it("a GraphML file that was cut off is refused, not read as a smaller network", () => {
    const whole =
      '<graphml><graph edgedefault="undirected"><node id="a"/><node id="b"/><edge source="a" target="b"/></graph></graphml>';
    expect(parseTopology(whole, "f").routers).toHaveLength(2);
    expect(() => parseTopology(whole.slice(0, whole.indexOf("<edge")), "f")).toThrow("cut off");
  });

  it("take each line for both directions where none is listed both ways", () => {
    const t = parseTopology("from,to,weight,latencyMs,capacity\nA,B,2,1.5,1e9\nB,C\n", "net.csv");
    expect(names(t)).toEqual(["A", "B", "C"]);
    expect(t.links).toHaveLength(4);
    expect(t.links[1]).toEqual({ from: 1, to: 0, weight: 2, latencyMs: 1.5, capacityBps: 1e9, up: true });
  });

  it("take each line for one direction where a link is listed both ways", () => {
    const t = parseTopology("A;B;1\nB;A;3\nB;C;1\n", "net.csv");
    expect(t.links.map((l) => [l.from, l.to, l.weight])).toEqual([
      [0, 1, 1],
      [1, 0, 3],
      [1, 2, 1],
    ]);
    expect(t.notes).toEqual(["1 link without the reverse direction"]);
  });

  it("keep parallel links apart and leave self loops out, with a note", () => {
    const t = parseTopology("A,B,1\nA,B,1\nA,A,1\n", "net.csv");
    expect(t.links).toHaveLength(4);
    expect(t.notes).toEqual(["1 self loop left out"]);
  });

  it("read quoted names with commas", () => {
    expect(names(parseTopology('"San Jose, CA","Reno ""NV""",3\n', "q.csv"))).toEqual([
      "San Jose, CA",
      'Reno "NV"',
    ]);
  });

  it("name the line and the byte of a bad weight", () => {
    expect(() => parseTopology("A,B,1\nB,C,-2\n", "net.csv")).toThrow(
      new FormatError("bad-record", "net.csv", 6, "line 2: weight '-2' is not a positive number"),
    );
  });
});

describe("Rocketfuel", () => {
  const weights = "San+Jose,+CA1 Reno2 2.5\nReno2 San+Jose,+CA1 2.5\n";
  it("reads names with commas, and latencies from the second file", () => {
    const latencies = { content: "San+Jose,+CA1 Reno2 4\nReno2 San+Jose,+CA1 5\n", file: "l" };
    const t = parseTopology(weights, "w", { latencies });
    expect(names(t)).toEqual(["San+Jose,+CA1", "Reno2"]);
    expect(t.links.map((l) => [l.weight, l.latencyMs])).toEqual([
      [2.5, 4],
      [2.5, 5],
    ]);
  });

  it("refuses a file of latencies beside another format", () => {
    const latencies = { content: "A B 1\n", file: "l" };
    expect(() => parseTopology("A,B,1\n", "net.csv", { latencies })).toThrow(UsageError);
  });
});

describe("GraphML", () => {
  const graph = (body: string, keys = "") =>
    `<?xml version="1.0"?><!DOCTYPE g [<!ENTITY x "y">]><graphml>${keys}<graph edgedefault="undirected">${body}</graph></graphml>`;
  const keys =
    '<key id="d0" for="node" attr.name="label"/><key id="d1" attr.name="Latitude"/><key id="d2" attr.name="Longitude"/>' +
    '<key id="d3" for="edge" attr.name="LinkSpeedRaw"/>';

  it("takes labels for names, coordinates for latency and LinkSpeedRaw for capacity", () => {
    const node = (id: string, label: string, lat: number, lon: number) =>
      `<node id="${id}"><data key="d0">${label}</data><data key="d1">${lat}</data><data key="d2">${lon}</data></node>`;
    const t = parseTopology(
      graph(
        `${node("0", "Z&#252;rich &amp; Bern", 47.38, 8.54)}<!-- <node/> -->${node("1", "<![CDATA[Genève]]>", 46.2, 6.15)}
         <edge source="0" target="1"><data key="d3">1e10</data></edge>`,
        keys,
      ),
      "ch.graphml",
    );
    expect(names(t)).toEqual(["Zürich & Bern", "Genève"]);
    expect(t.links[0]!.capacityBps).toBe(1e10);
    // 224 km apart as the crow flies.
    expect(t.links[0]!.latencyMs).toBeCloseTo(224 / 199.86, 1);
  });

  it("distinguishes routers of the same label", () => {
    const node = (id: string) => `<node id="${id}"><data key="d0">Rome</data></node>`;
    expect(names(parseTopology(graph(node("a") + node("b"), keys), "x"))).toEqual(["Rome (a)", "Rome (b)"]);
  });

  it("follows the direction of directed edges and joins hyperedges pairwise", () => {
    const nodes = ["a", "b", "c"].map((id) => `<node id="${id}"/>`).join("");
    const t = parseTopology(
      graph(
        `${nodes}<edge source="a" target="b" directed="true"/><hyperedge><endpoint node="a"/><endpoint node="b"/><endpoint node="c"/></hyperedge>`,
      ),
      "x",
    );
    expect(t.links).toHaveLength(1 + 6);
  });

  it.each([
    ["<graphml><graph><node id='a'></graph></graphml>", "XML: unexpected close tag"],
    ["<graphml><graph><node id='a' <edge", "XML: "],
    ["<graphml></graphml>", "no <graph> element"],
    ["<graphml><graph></graph></graphml>", "has no nodes"],
    ["<graphml><graph><node id='a'/><edge source='a' target='b'/></graph></graphml>", "names node 'b'"],
    ["<graphml><graph><node/></graph></graphml>", "without an id"],
    ["<graphml><!-- never", "cut off"],
  ])("answers %s with one line", (text, message) => {
    expect(() => parseTopology(text, "x")).toThrow(new RegExp(`^x: at byte \\d+: .*(${message})[^\\n]*$`));
  });

  it("names the place of a fault by its byte, and keeps undeclared entities as written", () => {
    const nodes = '<graphml><graph><node id="ä"/><node id="b"><data key="label">R&nbsp;1</data></node>';
    expect(() => parseTopology(`${nodes}<edge source="b" target="c"/></graph></graphml>`, "x")).toThrow(
      `x: at byte ${Buffer.byteLength(nodes)}: an edge names node 'c'`,
    );
    expect(names(parseTopology(`${nodes}</graph></graphml>`, "x"))).toEqual(["ä", "R&nbsp;1"]);
  });

  it("refuses hyperedges that would join thousands of routers with each other", () => {
    const ids = Array.from({ length: 20_000 }, (_, i) => `n${i}`);
    const nodes = ids.map((id) => `<node id="${id}"/>`).join("");
    const ends = ids.map((id) => `<endpoint node="${id}"/>`).join("");
    expect(() => parseTopology(graph(`${nodes}<hyperedge>${ends}</hyperedge>`), "big.graphml")).toThrow(
      /^big\.graphml: at byte \d+: a hyperedge joins 20,000 nodes, more than the 500 allowed/,
    );
    // Many that are allowed individually are too many together.
    const few = ids.slice(0, 500).map((id) => `<endpoint node="${id}"/>`);
    const many = `<hyperedge>${few.join("")}</hyperedge>`.repeat(10);
    expect(() => parseTopology(graph(`${nodes}${many}`), "big.graphml")).toThrow(/more than 2,000,000 links/);
  });
});

describe("FRR", () => {
  const lsa = (id: string, links: object[]) => ({
    linkStateId: id,
    routerLinks: Object.fromEntries(links.map((l, i) => [`link${i}`, l])),
  });
  const p2p = (to: string, tos0Metric: number) => ({
    linkType: "another Router (point-to-point)",
    neighborRouterId: to,
    tos0Metric,
  });
  const lan = (tos0Metric: number) => ({
    linkType: "a Transit Network",
    designatedRouterAddress: "10.0.0.9",
    tos0Metric,
  });

  it("joins routers of a transit network pairwise at the sender's cost, and drops links only one end lists", () => {
    const database = {
      routerLinkStates: {
        areas: {
          "0.0.0.0": [
            lsa("1", [p2p("2", 5), lan(10)]),
            lsa("2", [p2p("1", 7), lan(20)]),
            lsa("3", [lan(30), p2p("2", 1)]),
          ],
        },
      },
    };
    const t = parseTopology(JSON.stringify(database), "db");
    const cost = (a: string, b: string) =>
      t.links
        .filter((l) => t.routers[l.from]!.name === a && t.routers[l.to]!.name === b)
        .map((l) => l.weight);
    expect(cost("1", "2")).toEqual([5, 10]);
    expect(cost("2", "1")).toEqual([7, 20]);
    expect(cost("3", "2")).toEqual([30]);
    expect(t.notes).toEqual(["1 link listed by one end only left out"]);
  });

  it("reads the older layout with routers by id, and a database per VRF", () => {
    const old = {
      default: {
        "Router Link States": { "0.0.0.0": { "1": lsa("1", [p2p("2", 5)]), "2": lsa("2", [p2p("1", 5)]) } },
      },
    };
    expect(parseTopology(JSON.stringify(old), "db").links).toHaveLength(2);
  });
});

describe("hoptime.topology/1", () => {
  const config = {
    format: "hoptime.topology/1",
    name: "lab",
    routers: ["A", { name: "B", x: 1, y: 2, ports: ["eth0"] }, "C"],
    links: [
      { from: "A", to: "B", weight: 2, reverseWeight: 3, latencyMs: 1, fromPort: "e0", toPort: "e1" },
      { from: "B", to: "C", oneWay: true, up: false },
    ],
    hosts: [{ name: "h", router: "A" }],
    mRouters: ["B"],
    mServers: ["A"],
  };

  it("reads routers, links, ports, hosts, m-routers and m-servers", () => {
    const t = parseTopology(JSON.stringify(config), "lab.json");
    expect(t.name).toBe("lab");
    expect(t.links[1]).toEqual({
      from: 1,
      to: 0,
      weight: 3,
      latencyMs: 1,
      fromPort: "e1",
      toPort: "e0",
      up: true,
    });
    expect(t.links[2]!.up).toBe(false);
    expect([t.hosts, t.mRouters, t.mServers]).toEqual([[{ name: "h", router: 0 }], [1], [0]]);
  });

  it("survives being written and read", () => {
    const t = parseTopology(JSON.stringify(config), "lab.json");
    expect(parseTopology(JSON.stringify(topologyConfig(t)), "again")).toEqual(t);
  });

  it.each([
    [{ links: [{ from: "A", to: "X" }] }, "links[0].to: router 'X' is not declared"],
    [{ routers: ["A", "A"] }, "routers[1]: router 'A' is declared twice"],
    [
      { links: [{ from: "A", to: "B", weight: 0 }] },
      "links[0].weight: invalid value 0 (expected a number above 0)",
    ],
    [{ link: [] }, "link: no such field"],
    [{ links: [{ from: "A", to: "B", wieght: 2 }] }, "links[0].wieght: no such field"],
    [{ links: [{ from: "A" }] }, "links[0].to: missing"],
    [{ routers: [3] }, "routers[0]: invalid value 3 (expected text or an object)"],
    [{ routers: [] }, "routers: 0 entries (at least 1 needed)"],
    [{ routers: [{ name: "" }] }, "routers[0].name: invalid value '' (expected a name)"],
    [{ mRouters: ["Q"] }, "mRouters[0]: router 'Q' is not declared"],
  ])("says where %j is wrong", (change, message) => {
    expect(() => parseTopology(JSON.stringify({ ...config, ...change }), "lab.json")).toThrow(
      `lab.json: ${message}`,
    );
  });
});

describe("any file", () => {
  it.each([
    ["", "the file is empty"],
    ["# only a comment\n", "only comments"],
    ["hello world", "not a map"],
    ["{ broken", "not valid JSON"],
    ['{"a":1}', "neither hoptime.topology/1 nor"],
    ["NODES 2\nlabel x y\na 0 0\n", "ends 1 lines early"],
  ])("%j is refused in one line", (text, message) => {
    expect(() => parseTopology(text, "f")).toThrow(message);
  });

  it("may be gzip, may begin with a byte order mark, must not be binary", () => {
    expect(parseTopology(gzipSync("A,B\n"), "f").routers).toHaveLength(2);
    expect(names(parseTopology(Buffer.from("\uFEFFA,B\n"), "f"))).toEqual(["A", "B"]);
    expect(() => parseTopology(Uint8Array.of(1, 0, 2), "f")).toThrow("a binary file");
    expect(() => parseTopology(gzipSync("A,B\n").subarray(0, 12), "f")).toThrow("this gzip file is damaged");
  });

  it("whatever the bytes, gives a map or an error of ours", () => {
    const pieces = fc.constantFrom(
      "<graph>",
      "<node id='1'/>",
      "<edge source='1' target='2'/>",
      "NODES 1\n",
      "A,B\n",
      "A B 1\n",
      "{",
      "}",
      '"',
      "1",
      ",",
      "\n",
      "&#x0;",
      "<!--",
      "]]>",
    );
    const text = fc.oneof(
      fc.string(),
      fc.array(pieces).map((p) => p.join("")),
    );
    fc.assert(
      fc.property(text, (t) => {
        try {
          expect(parseTopology(Buffer.from(t), "f").routers.length).toBeGreaterThan(0);
        } catch (error) {
          expect(error instanceof FormatError || error instanceof UsageError).toBe(true);
          expect((error as Error).message).not.toContain("\n");
        }
      }),
      { numRuns: 500, seed: 7 },
    );
  });
});

describe("maps", () => {
  it("can lose a link and get it back", () => {
    const t = parseTopology("A,B\nB,C\n", "net.csv");
    const cut = withLink(t, "B", "C", "down");
    expect(components(t)).toEqual([[0, 1, 2]]);
    expect(components(cut)).toEqual([[0, 1], [2]]);
    expect(withLink(cut, "C", "B", "up")).toEqual(t);
    expect(() => withLink(t, "A", "C", "down")).toThrow("no link between A and C");
    expect(() => withLink(t, "A", "c", "down")).toThrow("no router 'c'");
  });
});

describe("maps of real networks", () => {
  const directories: string[] = [];
  afterAll(() => {
    for (const d of directories) rmSync(d, { recursive: true, force: true });
  });

  shared("topology/internet-topology-zoo-graphml.tar.gz", (archive) => {
    it("every Topology Zoo graph loads; unconnected parts are kept", () => {
      const directory = mkdtempSync(join(tmpdir(), "hoptime-zoo-"));
      directories.push(directory);
      execFileSync("tar", ["xzf", archive, "-C", directory]);
      const folder = join(directory, "graphml");
      const files = readdirSync(folder).filter((f) => f.endsWith(".graphml"));
      expect(files.length).toBe(276);
      let inParts = 0;
      for (const file of files) {
        const t = parseTopology(readFileSync(join(folder, file)), file);
        expect(t.routers.length, file).toBeGreaterThan(1);
        expect(new Set(names(t)).size, file).toBe(t.routers.length);
        if (components(t).length > 1) inParts++;
      }
      expect(inParts).toBe(23);
    });
  });

  shared("topology/rocketfuel", (folder) => {
    it("Rocketfuel maps have the routers and links that their README counts", () => {
      const read = (as: number) =>
        parseTopology(readFileSync(join(folder, `${as}.weights.intra`)), `${as}`, {
          latencies: { content: readFileSync(join(folder, `${as}.latencies.intra`)), file: "latencies" },
        });
      for (const [as, routers, links] of [
        [1221, 108, 306],
        [1239, 315, 1944],
        [1755, 87, 322],
        [3967, 79, 294],
      ] as const) {
        if (!existsSync(join(folder, `${as}.weights.intra`))) continue;
        const t = read(as);
        expect([t.routers.length, t.links.length]).toEqual([routers, links]);
        expect(t.links.every((l) => l.latencyMs !== undefined)).toBe(true);
      }
      expect(components(read(1221)).map((c) => c.length)).toEqual([104, 2, 2]);
    });
  });

  shared("topology/frr", (folder) => {
    it("FRR's two databases load", () => {
      const te = parseTopology(readFileSync(join(folder, "ospf_te_topo1.ted_step1.json")), "te");
      expect([te.routers.length, te.links.length]).toEqual([5, 9]);
      expect(te.links[0]).toMatchObject({ weight: 10, latencyMs: 10, fromPort: "10.0.0.1" });
      const ospf = parseTopology(
        readFileSync(join(folder, "show_ip_ospf_database_router.trimmed.json")),
        "db",
      );
      // Six routers share a transit network (30 directed links), two more have point-to-point links (4).
      expect([ospf.routers.length, ospf.links.length]).toEqual([8, 34]);
      expect(components(ospf)).toHaveLength(1);
    });
  });

  shared("topology/repetita-rocketfuel.tar.gz", (archive) => {
    it("Repetita's copy of 1239 has the same links as Rocketfuel's", () => {
      const directory = mkdtempSync(join(tmpdir(), "hoptime-repetita-"));
      directories.push(directory);
      execFileSync("tar", ["xzf", archive, "-C", directory]);
      const t = parseTopology(readFileSync(join(directory, "2016RocketFuelUCL/rf1239_real_hard.graph")), "r");
      expect([t.routers.length, t.links.length]).toEqual([315, 1944]);
      expect(t.links[0]).toMatchObject({ weight: 250, latencyMs: 4, capacityBps: 1e10 });
    });
  });
});
