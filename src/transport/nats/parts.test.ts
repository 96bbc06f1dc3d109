import { describe, expect, it } from "vitest";
import { PartAssembly, parsePart, partText, piecesOf } from "./parts.ts";

const bytes = (length: number) => Uint8Array.from({ length }, (_, i) => i % 251);

describe("records in parts", () => {
  it("are whole again in any order, with parts that come twice", () => {
    const record = bytes(10_000);
    const pieces = piecesOf(record, 4096 + 3000);
    expect(pieces.map((p) => p.length)).toEqual([3000, 3000, 3000, 1000]);
    const assembly = new PartAssembly<number>();
    const add = (number: number, from: number) =>
      assembly.add({ number, of: 4, record: "r" }, pieces[number - 1] ?? new Uint8Array(), from);
    expect(add(3, 30)).toEqual({ whole: null, replaced: null });
    expect(add(1, 10)).toEqual({ whole: null, replaced: null });
    expect(add(3, 31)).toEqual({ whole: null, replaced: 30 });
    expect(add(4, 40).whole).toBeNull();
    const { whole } = add(2, 20);
    expect(whole?.bytes).toEqual(record);
    expect(whole?.from).toEqual([10, 20, 31, 40]);
    expect(assembly.waiting).toBe(0);
  });

  it("that never become whole are given up, and named", () => {
    const assembly = new PartAssembly<number>();
    assembly.add({ number: 1, of: 3, record: "old" }, bytes(10), 1);
    assembly.add({ number: 1, of: 2, record: "new" }, bytes(10), 9);
    expect(assembly.takeOld((from) => from < 5)).toEqual([{ record: "old", from: [1], have: 1, of: 3 }]);
    expect(assembly.waiting).toBe(1);
  });

  it("are bounded in memory: the oldest make room", () => {
    const assembly = new PartAssembly<number>(1000);
    for (let i = 0; i < 50; i++) assembly.add({ number: 1, of: 2, record: `r${i}` }, bytes(100), i);
    expect(assembly.waiting).toBe(10);
  });

  it("have names that cannot be mistaken", () => {
    expect(parsePart(partText({ number: 2, of: 3, record: "a/b/c" }))).toEqual({
      number: 2,
      of: 3,
      record: "a/b/c",
    });
    for (const text of ["", "1/2", "0/2/x", "3/2/x", "1/9999/x", "a/b/c"]) expect(parsePart(text)).toBeNull();
  });
});
