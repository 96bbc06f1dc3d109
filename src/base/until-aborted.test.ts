import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, it } from "vitest";
import { untilAborted } from "./until-aborted.ts";

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

it("says what the promise says, or null as soon as the signal aborts", async () => {
  const { signal } = new AbortController();
  expect(await untilAborted(Promise.resolve(7), signal)).toBe(7);
  await expect(untilAborted(Promise.reject(new Error("broken")), signal)).rejects.toThrow("broken");
  const ending = new AbortController();
  const waiting = untilAborted(new Promise(() => {}), ending.signal);
  ending.abort();
  expect(await waiting).toBeNull();
  expect(await untilAborted(new Promise(() => {}), ending.signal)).toBeNull();
});

it("a failure after the signal is nobody's", async () => {
  const ending = new AbortController();
  let fail = (_: Error) => {};
  const waiting = untilAborted(
    new Promise<never>((_, reject) => {
      fail = reject;
    }),
    ending.signal,
  );
  ending.abort();
  fail(new Error("too late"));
  expect(await waiting).toBeNull();
});

it("keeps nothing of what earlier waits brought", async () => {
  const { signal } = new AbortController();
  const brought: WeakRef<object>[] = [];
  for (let i = 0; i < 100; i++) {
    const got = await untilAborted(Promise.resolve({ i }), signal);
    brought.push(new WeakRef(got ?? {}));
  }
  await new Promise(setImmediate);
  collectGarbage();
  // The last object may still be on the stack.
  expect(brought.filter((ref) => ref.deref() !== undefined).length).toBeLessThanOrEqual(1);
});
