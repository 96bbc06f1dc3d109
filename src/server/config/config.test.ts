/** The configuration file: errors name their position, flags take precedence, docs/config.md is current. */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { UsageError } from "../../base/errors.ts";
import { changes, overlay, serverOptions } from "./collector-options.ts";
import { parseConfig, readConfig } from "./read-config.ts";
import { settingsOf } from "./settings.ts";
import { settingsPage } from "./settings-page.ts";

const root = mkdtempSync(join(tmpdir(), "hoptime-config-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const problem = (text: string): string => {
  try {
    parseConfig(text, "hoptime.yaml");
  } catch (error) {
    if (error instanceof UsageError) return error.message;
    throw error;
  }
  throw new Error("nothing is wrong with it");
};

describe("hoptime.yaml", () => {
  it("names what is wrong with file, line and column", () => {
    const nine = (name: string) => Array(9).fill(name).join(", ");
    const aliases = ["b", "c", "d", "e"].reduce(
      (text, name, i) => `${text}${name}: &${name} [${nine(`*${"abcd"[i]}`)}]\n`,
      `a: &a [${nine("x")}]\n`,
    );
    const cases: [string, string][] = [
      ["data: d\nlateness: soon\n", "hoptime.yaml:2:11: lateness: 'soon' is not a duration"],
      ["data: d\nlatness: 30s\n", "hoptime.yaml:2:1: latness: no such field"],
      ["keep:\n  size: big\n", "hoptime.yaml:2:9: keep.size: invalid value 'big'"],
      ["keep:\n  sizes: 1GB\n", "hoptime.yaml:2:3: keep.sizes: no such field"],
      [
        "listen: 99\n",
        "hoptime.yaml:1:9: listen: invalid value 99 (expected HOST:PORT, e.g. 127.0.0.1:8787)",
      ],
      ["listen: nowhere\n", "hoptime.yaml:1:9: listen: invalid value 'nowhere'"],
      ["segments:\n  - A:B\n  - A\n", "hoptime.yaml:3:5: segments[1]: invalid value 'A'"],
      ["plan:\n  estimators: [nobody]\n", "hoptime.yaml:1:1: plan: unknown estimator 'nobody'"],
      ["plan:\n  estimators: [lda]\n  epoch: 7s\n", "hoptime.yaml:3:10: plan: epoch: invalid value '7s'"],
      ["paths:\n  - name: x\n", "hoptime.yaml:2:5: paths[0]: a path has either points, or from and to"],
      ["paths:\n  - points: [A, B, A]\n", "hoptime.yaml:2:5: paths[0]: a point is named twice"],
      ["paths:\n  - points: [A, B]\n  - points: [A, B]\n", "paths[1].name: 'A,B' is used twice"],
      ["paths:\n  - {from: A, to: B}\n", "hoptime.yaml:2:5: paths[0]: from and to are routers of a map"],
      [
        "alerts:\n  - {name: a, when: 'mean > 1'}\n",
        "hoptime.yaml:2:21: alerts[0].when: '1' is not a duration",
      ],
      ["alerts:\n  - {name: a, when: 'speed > 1ms'}\n", "hoptime.yaml:2:21: alerts[0].when: invalid value"],
      [
        "alerts:\n  - {name: a, when: 'mean > 1ms', to: [ops]}\n",
        "hoptime.yaml:2:40: alerts[0].to: 'ops' is not among notify",
      ],
      [
        "alerts:\n  - {name: a, when: 'mean > 1ms', clear: 2ms}\n",
        "hoptime.yaml:2:42: alerts[0].clear: '2ms' is beyond the alert's own limit",
      ],
      [
        "alerts:\n  - {name: a, when: incident}\n  - {name: a, when: incident}\n",
        "hoptime.yaml:3:12: alerts[1].name: 'a' is used twice",
      ],
      ["notify:\n  - {name: x, webhook: 'ftp://a'}\n", "hoptime.yaml:2:24: notify[0].webhook: invalid value"],
      ["data: [\n", "hoptime.yaml:2:1:"],
      ["data: a\ndata: b\n", "hoptime.yaml:2:1: Map keys must be unique"],
      ["- 1\n", "hoptime.yaml:1:1: invalid value [1] (expected an object)"],
      ["log: xml\n", "hoptime.yaml:1:6: log: invalid value 'xml' (expected text, json)"],
      ["lateness: 30\n", "1:11: lateness: invalid value 30 (expected a time with its unit, e.g. 30s)"],
      ["keep: {size: 0}\n", "1:14: keep.size: invalid value 0 (expected a size with its unit, e.g. 10GB)"],
      ["listen: 8787\n", "1:9: listen: invalid value 8787 (expected HOST:PORT, e.g. 127.0.0.1:8787)"],
      ["data: d\n---\ndata: e\n", "hoptime.yaml:2:1: a second document begins (---)"],
      [`${aliases}`, "hoptime.yaml:1:1: aliases (*name) expand to more than settings can hold"],
    ];
    for (const [text, expected] of cases) expect(problem(text), text).toContain(expected);
  });

  it("never shows a password of a URL", () => {
    const text = problem("otlp:\n  url: http://user:secret@host/v1/metrics\n");
    expect(text).not.toContain("secret");
    expect(text).toContain("hoptime.yaml:2:8");
  });

  it("may be empty, and finds files from where it lies", () => {
    expect(parseConfig("", "f")).toEqual({});
    expect(parseConfig("# nothing\n", "f")).toEqual({});
    const folder = join(root, "etc");
    mkdirSync(folder);
    writeFileSync(join(folder, "map.csv"), "A,B\n");
    writeFileSync(join(folder, "hoptime.yaml"), "topology:\n  map: map.csv\npaths:\n  - {from: A, to: B}\n");
    expect(readConfig(join(folder, "hoptime.yaml")).topology?.map).toBe(join(folder, "map.csv"));
    expect(() => readConfig(join(root, "none.yaml"))).toThrow("cannot be read");
  });

  it("is overridden by the command line, field by field", () => {
    const file = parseConfig("data: d\nlateness: 5s\nkeep: {epochs: 1d, size: 1GB}\nsegments: [A:B]\n", "f");
    const both = overlay(file, { lateness: "9s", keep: { epochs: "2d" }, segments: ["C:D"] });
    const options = serverOptions(both);
    expect(options).toMatchObject({ data: "d", listen: "127.0.0.1:8787", latenessNs: 9_000_000_000n });
    expect(options.segments).toEqual([{ from: "C", to: "D", label: "" }]);
    expect(options.retention).toMatchObject({ recordBytes: 1e9, rowsNs: { 0: 172_800_000_000_000n } });
    expect(() => serverOptions({})).toThrow("directory of the collector");
  });

  it("says which changes wait for a restart", () => {
    const before = parseConfig("data: d\nkeep: {epochs: 1d}\n", "f");
    const after = parseConfig("data: e\nkeep: {epochs: 2d}\nlimits: {questionTime: 5s}\n", "f");
    expect(changes(before, after)).toEqual({
      now: ["keep", "limits"],
      restart: ["data", "limits.questionTime"],
    });
  });
});

describe("docs/config.md", () => {
  it("is what hoptime collect --settings prints", () => {
    expect(readFileSync(new URL("../../../docs/config.md", import.meta.url), "utf8")).toBe(settingsPage());
  });

  it("describes every setting, and its example is a valid file", () => {
    const all = [...settingsOf()];
    expect(all.length).toBeGreaterThan(50);
    for (const { keys, schema } of all) expect(schema.description?.length, keys.join(".")).toBeGreaterThan(5);
    const [, example = ""] = /```yaml\n([\s\S]*?)```/.exec(settingsPage()) ?? [];
    expect(Object.keys(parseConfig(example, "example"))).toContain("alerts");
  });
});
