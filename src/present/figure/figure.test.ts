import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { axisScale, writeQuantity } from "./axis-scale.ts";
import { drawFigure, figureTable } from "./draw.ts";
import { distribution, type Figure } from "./figure.ts";

const EXAMPLE: Figure = {
  title: "Error & loss",
  x: { label: "loss", scale: "log", quantity: "share" },
  y: { label: "relative error", scale: "log", quantity: "share" },
  series: [
    {
      name: "ours",
      points: [
        { x: 0.001, y: 0.004, low: 0.003, high: 0.006 },
        { x: 0.01, y: 0.009 },
        { x: 0.1, y: 0.04 },
      ],
    },
    { name: "probes <1 Hz>", points: [0.001, 0.01, 0.1].map((x) => ({ x, y: 0.9 })) },
    { name: "claimed", claimed: true, points: [0.001, 0.1].map((x) => ({ x, y: 0.04 })) },
  ],
};
const DISTRIBUTIONS: Figure = {
  title: "Errors of flows",
  x: { label: "relative error", scale: "log", quantity: "share", range: [1e-3, 1] },
  y: { label: "flows", quantity: "share", range: [0, 1] },
  series: [
    distribution(
      "even",
      Array.from({ length: 500 }, (_, i) => (i + 1) / 500),
      20,
    ),
  ],
};
/** Golden files, reviewed by diff; HOPTIME_FIGURES=write rewrites them. */
const SNAPSHOTS = new URL("../../../tests/golden/figures/", import.meta.url);

describe("drawFigure", () => {
  it.each([
    ["lines", EXAMPLE],
    ["distribution", DISTRIBUTIONS],
  ])("draws %s as before", (name, figure) => {
    const svg = drawFigure(figure, { standalone: true });
    const file = new URL(`${name}.svg`, SNAPSHOTS);
    if (process.env["HOPTIME_FIGURES"] === "write") {
      mkdirSync(SNAPSHOTS, { recursive: true });
      writeFileSync(file, svg);
    }
    expect(svg).toBe(readFileSync(file, "utf8"));
  });

  it("escapes names, says what it shows, and uses neither script nor style inside a page", () => {
    const svg = drawFigure(EXAMPLE);
    expect(svg).toContain("probes &lt;1 Hz&gt;");
    expect(svg).toContain('aria-label="Error &amp; loss"');
    expect(svg).not.toMatch(/<script|<style|style=/);
  });

  it("names series beside their ends, without overlap", () => {
    const ends = [0.5, 0.5, 0.5001, 0.49].map((y, i) => ({ name: `s${i}`, points: [{ x: 1, y }] }));
    const svg = drawFigure({ title: "t", x: { label: "x" }, y: { label: "y" }, series: ends });
    const places = [...svg.matchAll(/y="([\d.]+)">s\d/g)].map((m) => Number(m[1])).sort((a, b) => a - b);
    expect(places).toHaveLength(4);
    for (const [i, y] of places.entries())
      if (i > 0) expect(y - (places[i - 1] ?? 0)).toBeGreaterThanOrEqual(12.9);
  });

  it("has room for its names and numbers in a wide font", () => {
    const names = ["as", "a vector per peer in the same memory"];
    const svg = drawFigure({
      ...{ title: "t", x: { label: "x" }, y: { label: "share of all", scale: "log", quantity: "share" } },
      series: names.map((name) => ({ name, points: [{ x: 1, y: 1e3 }] })),
    });
    // Seven pixels a letter is the width of DejaVu Sans.
    const start = Number(/x="([\d.]+)" y="[\d.]+">a vector/.exec(svg)?.[1]);
    expect(start + 7 * (names[1] ?? "").length).toBeLessThanOrEqual(641);
    for (const [, x, text] of svg.matchAll(/x="([\d.]+)" y="[\d.]+" text-anchor="end"[^>]*>([^<]+)/g))
      expect(Number(x) - 7 * (text ?? "").length).toBeGreaterThan(17);
  });

  it("leaves out numbers that would run into each other along the axis, and keeps the decades", () => {
    const along = (low: number, high: number) => {
      const svg = drawFigure({
        ...{ title: "t", x: { label: "x", scale: "log", quantity: "share" }, y: { label: "y" } },
        series: [
          {
            name: "a long name that leaves little room, half of the picture",
            points: [low, high].map((x) => ({ x, y: 1 })),
          },
        ],
      });
      const found = svg.matchAll(/x="([\d.]+)" y="270" text-anchor="middle"[^>]*>([^<]+)/g);
      return [...found].map(([, x, text]) => ({ x: Number(x), text: text ?? "" }));
    };
    for (const ticks of [along(1e-5, 1), along(0.1, 10), along(0.1, 1)]) {
      expect(ticks.length).toBeGreaterThan(1);
      for (const [i, { x, text }] of ticks.entries()) {
        const before = ticks[i - 1];
        if (before) expect(x - before.x).toBeGreaterThanOrEqual((7 * (text.length + before.text.length)) / 2);
      }
    }
    expect(along(0.1, 10).map((t) => t.text)).toEqual(["10 %", "100 %", "1,000 %"]);
  });

  it("cuts off what is beyond the range of an axis, and names it where it leaves", () => {
    const figure: Figure = {
      ...{ title: "t", x: { label: "x", range: [0, 1] }, y: { label: "y", range: [0, 1] } },
      series: [{ name: "far", kind: "steps", points: [0.2, 0.6, 1, 5].map((x, i) => ({ x, y: i / 4 })) }],
    };
    const svg = drawFigure(figure);
    const [, x, width, inner] = /<svg x="([\d.]+)" [^>]*width="([\d.]+)"[^>]*>(.*?)<\/svg>/.exec(svg) ?? [];
    expect(inner).toContain("<path");
    const end = Number(x) + Number(width);
    expect(end).toBeLessThan(640 - 3 * 7);
    const named = Number(/y="([\d.]+)">far/.exec(svg)?.[1]);
    // At half of the height: the axis ends at 1.
    expect(Math.abs(named - 3.5 - (30 + 254) / 2)).toBeLessThan(1);
  });

  it("leaves out what a logarithmic axis has no place for, and draws a figure without values", () => {
    const zero: Figure = { ...EXAMPLE, series: [{ name: "none", points: [{ x: 0, y: 0 }] }] };
    expect(drawFigure(zero)).not.toContain("NaN");
    expect(drawFigure({ ...EXAMPLE, series: [] })).not.toMatch(/NaN|Infinity/);
  });

  it("has a table behind it", () => {
    expect(figureTable(EXAMPLE).rows[0]).toEqual(["ours", "0.1 %", "0.4 %"]);
    const [x, y] = [
      { label: "class", names: ["a", "b"] },
      { label: "delay", quantity: "time" },
    ] as const;
    const classes = { title: "t", x, y, series: [{ name: "abc", points: [{ x: 1, y: 1e7 }] }] };
    expect(figureTable(classes).rows[0]).toEqual(["abc", "b", "10 ms"]);
  });
});

describe("axisScale", () => {
  it("covers all values with whole decades, or with steps of 1, 2 or 5", () => {
    const log = axisScale({ label: "", scale: "log" }, [0.003, 40], 0, 100);
    expect(log.ticks.map((t) => t.text)).toEqual(
      ["1 × 10⁻³", "0.01", "0.1", "1", "10", "100"].map((t) => (t === "1 × 10⁻³" ? "0.001" : t)),
    );
    expect([log.at(0.001), log.at(100)]).toEqual([0, 100]);
    const linear = axisScale({ label: "" }, [1, 47], 0, 100);
    expect(linear.ticks.map((t) => t.text)).toEqual(["0", "10", "20", "30", "40", "50"]);
  });
});

describe("distribution", () => {
  it("reaches 1 at the largest value and has no more points than asked for", () => {
    const { points } = distribution("x", [3, 1, 2, Number.NaN], 120);
    expect(points).toEqual([
      { x: 1, y: 1 / 3 },
      { x: 2, y: 2 / 3 },
      { x: 3, y: 1 },
    ]);
    expect(distribution("x", Array(1000).fill(1), 10).points).toHaveLength(10);
  });
});

describe("writeQuantity", () => {
  it.each([
    [0.00123, "share", "0.123 %"],
    [1234567, "count", "1.23 M"],
    [12345, "plain", "12,300"],
    [2.5e6, "time", "2.5 ms"],
    [Number.NaN, "plain", "–"],
    [0.00002, "plain", "2 × 10⁻⁵"],
    [3e12, "count", "3 × 10¹²"],
    [2.5e9, "plain", "2.5 × 10⁹"],
  ] as const)("writes %s as %s", (value, quantity, text) => {
    expect(writeQuantity(value, quantity)).toBe(text);
  });
});
