import { describe, expect, it } from "vitest";
import { parseCut } from "./cut-option.ts";

describe("--epoch", () => {
  it("is a time or a number of packets", () => {
    expect(parseCut("1ms", undefined)).toEqual({ mode: "aligned", lengthNs: 1_000_000n });
    expect(parseCut("16p", undefined)).toEqual({ mode: "delimited", every: 16 });
  });

  it("is refused where it would write a file for every few packets", () => {
    for (const short of ["1us", "999us", "2p", "15p"])
      expect(() => parseCut(short, undefined)).toThrow(`invalid value '${short}'`);
  });
});
