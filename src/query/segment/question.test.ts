import { expect, test } from "vitest";
import { UsageError } from "../../base/errors.ts";
import { MemoryRecords } from "../../collect/memory-records.ts";
import { askArchive } from "./ask.ts";
import { checkQuestion, type Question } from "./question.ts";

// As untyped callers may pass them.
const NUMBER_NS = 1.7e18 as unknown as bigint;
const NOT_A_TIME = Number.NaN as unknown as bigint;

test.each<[string, Partial<Question>]>([
  ["from", { fromNs: NUMBER_NS }],
  ["from", { fromNs: NOT_A_TIME, toNs: 5n }],
  ["to", { toNs: NOT_A_TIME }],
  ["to", { fromNs: 5n, toNs: NUMBER_NS }],
  ["top", { top: Number.NaN }],
  ["confidence", { confidence: Number.NaN }],
])("%s is refused: %o", (parameter, asked) => {
  const question: Question = { between: ["A", "B"], ...asked };
  for (const ask of [() => checkQuestion(question), () => askArchive(new MemoryRecords(), question)]) {
    expect(ask).toThrow(UsageError);
    expect(ask).toThrow(expect.objectContaining({ parameter, expected: expect.any(String) }));
  }
});
