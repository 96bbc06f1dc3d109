import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { rounds } from "../../../tests/support/rounds.ts";
import { jsonPieces } from "./json-pieces.ts";

describe("JSON in pieces", () => {
  test("is JSON.stringify's, for whatever can be written as JSON", () => {
    fc.assert(
      fc.property(fc.anything({ withDate: true, maxDepth: 7 }), (value) => {
        const text = JSON.stringify(value);
        fc.pre(text !== undefined);
        expect([...jsonPieces(value)].join("")).toBe(text);
      }),
      { seed: 7, numRuns: rounds(500, 2000) },
    );
  });

  test("walks a list that makes its elements on the way, one piece each", () => {
    let made = 0;
    const rows = {
      *[Symbol.iterator]() {
        for (; made < 3; made++) yield { made };
      },
    };
    const pieces = jsonPieces({ rows, end: undefined });
    const seen: [string, number][] = [];
    for (const piece of pieces) seen.push([piece, made]);
    expect(seen.map(([piece]) => piece).join("")).toBe('{"rows":[{"made":0},{"made":1},{"made":2}]}');
    expect(seen[1]).toEqual(['[{"made":0}', 0]);
    expect(seen[2]).toEqual([',{"made":1}', 1]);
  });
});
