import { expect, test } from "vitest";
import { plainReason } from "./reason.ts";

test("a reason is read without its code", () => {
  expect(plainReason("no-usable-cells: every cell lost a packet")).toBe("every cell lost a packet");
  expect(plainReason("no record: the point was not observed")).toBe("no record: the point was not observed");
  expect(plainReason("overflow: a count overflowed")).toBe("a count overflowed");
  expect(plainReason("lost: 3 packets")).toBe("lost: 3 packets");
});
