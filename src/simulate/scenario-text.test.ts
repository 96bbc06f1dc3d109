import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import {
  parseClock,
  parseDelay,
  parseLoss,
  parseQuantity,
  parseReorder,
  parseShare,
  readScenario,
} from "./scenario-text.ts";

const directory = mkdtempSync(join(tmpdir(), "hoptime-scenario-"));
afterAll(() => rmSync(directory, { recursive: true }));

describe("parts of a scenario in text", () => {
  it("are numbers with multipliers and shares in percent", () => {
    expect([parseQuantity("400k", "x"), parseQuantity("2.5M", "x"), parseQuantity("1e6", "x")]).toEqual([
      4e5, 2.5e6, 1e6,
    ]);
    expect([parseShare("0.1%", "x"), parseShare("0.25", "x"), parseShare("0", "x")]).toEqual([
      0.001, 0.25, 0,
    ]);
    for (const bad of ["", "0", "-1", "12x", "k"]) expect(() => parseQuantity(bad, "rate")).toThrow(/rate/);
    for (const bad of ["", "%", "1", "100%", "-0.1", "x"])
      expect(() => parseShare(bad, "loss")).toThrow(/loss/);
  });

  it("are delay models", () => {
    expect(parseDelay("constant:1ms")).toEqual({ kind: "constant", ns: 1e6 });
    expect(parseDelay("weibull:133us:0.6")).toEqual({ kind: "weibull", scaleNs: 133_000, shape: 0.6 });
    expect(parseDelay("uniform:1us:2us")).toEqual({ kind: "uniform", lowNs: 1000, highNs: 2000 });
    expect(parseDelay("per-flow")).toEqual({ kind: "per-flow" });
    expect(parseDelay("per-flow:50us:1:0.2")).toEqual({
      kind: "per-flow",
      medianNs: 50_000,
      sigma: 1,
      jitter: 0.2,
    });
    expect(parseDelay("bimodal:1ms:2ms")).toEqual({ kind: "bimodal", lowNs: 1e6, highNs: 2e6 });
    for (const bad of ["", "weibull", "weibull:133us", "weibull:133us:x", "gamma:1us", "constant:5"])
      expect(() => parseDelay(bad)).toThrow();
  });

  it("are loss, reordering and clocks", () => {
    expect(parseLoss("0.1%")).toEqual({ kind: "loss", model: "uniform", probability: 0.001 });
    expect(parseLoss("1%:100")).toEqual({ kind: "loss", model: "bursts", probability: 0.01, meanBurst: 100 });
    expect(parseReorder("1%:50us")).toEqual({ kind: "reorder", probability: 0.01, extentNs: 50_000 });
    expect(parseClock("receiver:offset=-50us,skew=20,jitter=100ns,resolution=1us")).toEqual({
      point: "receiver",
      clock: { offsetNs: -50_000, skewPpm: 20, jitterNs: 100, resolutionNs: 1000 },
    });
    expect(() => parseLoss("1%:0")).toThrow(/at least 1/);
    expect(() => parseReorder("1%")).toThrow(/SHARE:TIME/);
    for (const bad of ["receiver", "receiver:drift=1", "receiver:skew=x", "receiver:offset"])
      expect(() => parseClock(bad)).toThrow(/clock: invalid value/);
  });

  it("are whole scenarios from files, refused where they cannot be one", () => {
    const file = join(directory, "scenario.json");
    const put = (value: unknown) =>
      writeFileSync(file, typeof value === "string" ? value : JSON.stringify(value));
    const good = {
      traffic: { kind: "synthetic", ratePps: 1000, durationS: 1 },
      path: [{ kind: "queue", utilisation: 0.5 }],
    };
    put(good);
    expect(readScenario(file)).toEqual(good);
    put("{");
    expect(() => readScenario(file)).toThrow(/not JSON/);
    put({ ...good, traffic: { kind: "magic" } });
    expect(() => readScenario(file)).toThrow(/traffic.kind/);
    put({ ...good, path: [{ kind: "wormhole" }] });
    expect(() => readScenario(file)).toThrow(/path\[0\]\.kind: invalid value 'wormhole'/);
    expect(() => readScenario(join(directory, "none.json"))).toThrow(/cannot be read/);
  });
});

it.each<[string, unknown, () => unknown]>([
  ["rate", "-5", () => parseQuantity("-5", "rate")],
  ["share", "2", () => parseShare("2", "share")],
  ["loss", "1%:0", () => parseLoss("1%:0")],
  ["reorder", "1%", () => parseReorder("1%")],
  ["clock", "receiver", () => parseClock("receiver")],
  ["delay", "soon", () => parseDelay("soon")],
])("a wrong %s is refused with what was given and what is expected", (parameter, value, parse) => {
  expect(parse).toThrow(expect.objectContaining({ parameter, value, expected: expect.any(String) }));
});
