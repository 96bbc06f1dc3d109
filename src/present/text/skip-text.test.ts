import { expect, test } from "vitest";
import { SKIP_REASONS } from "../../capture/reasons.ts";
import { skipText, skipWords } from "./skip-text.ts";

test("every reason for which a packet is not used has words", () => {
  for (const [reason] of SKIP_REASONS) expect(skipWords(reason), reason).not.toBe(reason);
  expect(skipText({ notIp: 8000, filtered: 2 })).toBe("8,000 not IP, 2 not of the filter");
  expect(skipText({})).toBe("");
});
