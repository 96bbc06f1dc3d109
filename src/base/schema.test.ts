import {
  Array as ArrayOf,
  Object as Fields,
  Integer,
  Literal,
  Number as NumberOf,
  Optional,
  String as Text,
  Union,
} from "typebox";
import { describe, expect, it } from "vitest";
import { closest } from "./closest.ts";
import { UsageError } from "./errors.ts";
import { checkedValue } from "./schema.ts";

const closed = { additionalProperties: false };
const SHAPE = Union([
  Fields({ kind: Literal("circle"), radius: NumberOf({ exclusiveMinimum: 0 }) }, closed),
  Fields({ kind: Literal("box"), width: NumberOf(), style: Literal("plain") }, closed),
  Fields({ kind: Literal("box"), width: NumberOf(), style: Literal("round"), corner: NumberOf() }, closed),
]);
const DRAWING = Fields(
  {
    title: Optional(Text()),
    shapes: ArrayOf(Union([Text(), SHAPE]), { maxItems: 3 }),
    layers: Optional(Integer()),
  },
  closed,
);

function fault(value: unknown): string {
  try {
    checkedValue(DRAWING, value, { source: "d.json", code: "bad-question", hint: "see the docs" });
  } catch (error) {
    expect(error).toBeInstanceOf(UsageError);
    expect((error as UsageError).code).toBe("bad-question");
    return `${(error as UsageError).message} | ${(error as UsageError).hint}`;
  }
  return "none";
}

describe("a value that is checked against a schema", () => {
  it("is handed back as it is where nothing is wrong", () => {
    const value = { shapes: ["dot", { kind: "circle", radius: 1 }] };
    expect(checkedValue(DRAWING, value, { source: "d.json" })).toBe(value);
  });

  it.each([
    [
      { shapes: [{ kind: "circle", radius: 0 }] },
      "d.json: shapes[0].radius: invalid value 0 (expected a number above 0) | see the docs",
    ],
    [
      { shapes: [{ kind: "circle", raduis: 1 }] },
      "d.json: shapes[0].raduis: no such field | did you mean radius? Fields: kind, radius",
    ],
    [
      { shapes: [{ kind: "circel", radius: 1 }] },
      "d.json: shapes[0].kind: invalid value 'circel' (expected circle, box) | did you mean circle?",
    ],
    [
      { shapes: [{ kind: "box", width: 1, style: "bold" }] },
      "d.json: shapes[0].style: invalid value 'bold' (expected plain, round) | see the docs",
    ],
    [
      { shapes: [{ kind: "box", width: 1, style: "round" }] },
      "d.json: shapes[0].corner: missing | see the docs",
    ],
    [{ shapes: [{ width: 1 }] }, "d.json: shapes[0].kind: missing (expected circle, box) | see the docs"],
    [{ shapes: [7] }, "d.json: shapes[0]: invalid value 7 (expected text or an object) | see the docs"],
    [{ shapes: ["a", "b", "c", "d"] }, "d.json: shapes: 4 entries (at most 3 are allowed) | see the docs"],
    [
      { shapes: [], layers: 1.5 },
      "d.json: layers: invalid value 1.5 (expected a whole number) | see the docs",
    ],
    [{ shape: [] }, "d.json: shape: no such field | did you mean shapes? Fields: title, shapes, layers"],
    [{}, "d.json: shapes: missing | see the docs"],
    [{ shapes: [], "a/b": 1 }, "d.json: a/b: no such field | fields: title, shapes, layers"],
    ["text", "d.json: invalid value 'text' (expected an object) | see the docs"],
    [
      { shapes: [], title: ["y".repeat(100)] },
      `d.json: title: invalid value ["${"y".repeat(55)}… (expected text) | see the docs`,
    ],
  ])("says in one line what is wrong with %j", (value, message) => {
    expect(fault(value)).toBe(message);
  });

  it("says so of values of any depth and number of fields", () => {
    let deep: unknown = [];
    for (let i = 0; i < 100_000; i++) deep = [deep];
    expect(fault(deep)).toMatch(/^d\.json: invalid value \[{57}… \(expected an object\)/);
    const fields = Array.from({ length: 2000 }, (_, i) => [`f${i}`, i]);
    expect(fault({ shapes: [], ...Object.fromEntries(fields) })).toMatch(/^d\.json: f0: no such field/);
  });
});

describe("what may have been meant", () => {
  it("is a name of a slip or two, and none that is another word", () => {
    expect(closest("utilization", ["rateBps", "utilisation"])).toBe("utilisation");
    expect(closest("sede", ["seed", "path"])).toBe("seed");
    expect(closest("RatePPS", ["ratePps"])).toBe("ratePps");
    expect(closest("colour", ["seed", "path"])).toBeUndefined();
    expect(closest("x".repeat(100), ["x".repeat(99)])).toBeUndefined();
  });
});
