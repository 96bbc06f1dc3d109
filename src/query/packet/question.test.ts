import { expect, test } from "vitest";
import { UsageError } from "../../base/errors.ts";
import { checkPacketQuestion, type PacketQuestion } from "./question.ts";

test.each<[string, Partial<Record<keyof PacketQuestion, unknown>>]>([
  ["packets", { packets: { by: "luck" } }],
  ["packets", { packets: undefined }],
  ["from", { fromNs: Number.NaN }],
  ["to", { toNs: 5 }],
  ["top", { top: Number.NaN }],
  ["worst", { worst: -1 }],
  ["slack", { slackNs: Number.NaN }],
  ["slack", { slackNs: Number.POSITIVE_INFINITY }],
])("%s is refused: %o", (parameter, asked) => {
  const question = { packets: { by: "listed" }, ...asked } as PacketQuestion;
  const check = () => checkPacketQuestion(question);
  expect(check).toThrow(UsageError);
  expect(check).toThrow(expect.objectContaining({ parameter, expected: expect.any(String) }));
});

test("a question with all of them is taken", () => {
  checkPacketQuestion({ packets: { by: "listed" }, fromNs: 1n, toNs: 2n, slackNs: 0, top: 1, worst: 0 });
});
