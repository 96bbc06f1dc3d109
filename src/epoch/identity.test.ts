import { expect, test } from "vitest";
import { identityText, type RecordIdentity, tapText } from "./identity.ts";

const identity: RecordIdentity = {
  point: "a",
  segment: "",
  role: "none",
  estimator: "lda",
  epoch: { mode: "aligned", startNs: 1n, endNs: 2n, startId: 0n, endId: 0n },
  fingerprint: 3n,
  seed: 4n,
};

test("every part of an identity distinguishes records", () => {
  const { epoch } = identity;
  const others: RecordIdentity[] = [
    { ...identity, point: "b" },
    { ...identity, segment: "s" },
    { ...identity, role: "sender" },
    { ...identity, estimator: "lds" },
    { ...identity, fingerprint: 5n },
    { ...identity, seed: 5n },
    { ...identity, epoch: { ...epoch, startNs: 0n } },
    { ...identity, epoch: { ...epoch, endNs: 3n } },
    { ...identity, epoch: { ...epoch, mode: "delimited" } },
    { ...identity, epoch: { ...epoch, startId: 1n } },
    { ...identity, epoch: { ...epoch, endId: 1n } },
  ];
  const texts = new Set([identity, ...others].map(identityText));
  expect(texts.size).toBe(others.length + 1);
});

test("a slash in a name cannot make two taps one", () => {
  expect(tapText({ ...identity, point: "a/b", segment: "c" })).not.toBe(
    tapText({ ...identity, point: "a", segment: "b/c" }),
  );
});
