import { expect, test } from "vitest";
import { countedRecord } from "../../tests/support/counted-records.ts";
import { countingEstimator } from "../../tests/support/counting-estimator.ts";
import { FlowLists } from "./flow-lists.ts";
import { type RecordHandle, receivedRecord } from "./record-handle.ts";

const SECOND = 1_000_000_000n;
const handle = (n: number, packets = 10): RecordHandle =>
  receivedRecord(countedRecord({ point: "A", startNs: BigInt(n) * SECOND, lengthNs: SECOND, packets }));

test("lists are kept for the newest epochs only where the watermark stands still, and a list that comes again takes no room", () => {
  const lists = new FlowLists([countingEstimator]);
  const reads: number[] = [];
  for (let n = 0; n < 100; n++)
    for (let again = 0; again < 3; again++) {
      const one = handle(n);
      lists.add({
        ...one,
        read() {
          reads.push(n);
          return one.read();
        },
      });
    }
  lists.forget(0n, 10);
  const kept = Array.from({ length: 100 }, (_, n) => n).filter((n) => lists.has([handle(n)]));
  expect(kept).toEqual([90, 91, 92, 93, 94, 95, 96, 97, 98, 99]);
  expect(lists.of([handle(95)], handle(95).read())?.count).toBe(1);
  expect(reads).toEqual([95]);
  lists.forget(100n * SECOND, 10);
  expect(lists.empty).toBe(true);
});
