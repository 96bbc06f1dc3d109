/** Tests SHA-1 against node:crypto. */
import { createHash } from "node:crypto";
import fc from "fast-check";
import { expect, test } from "vitest";
import { sha1 } from "./sha1.ts";

test("is what node:crypto says, at every length around the blocks' ends", () => {
  const same = (bytes: Uint8Array) => {
    expect(Buffer.from(sha1(bytes)).toString("hex")).toBe(createHash("sha1").update(bytes).digest("hex"));
  };
  for (let n = 0; n < 200; n++) same(Uint8Array.from({ length: n }, (_, i) => (i * 131 + n) & 0xff));
  fc.assert(fc.property(fc.uint8Array({ maxLength: 300 }), same), { seed: 1, numRuns: 200 });
});
