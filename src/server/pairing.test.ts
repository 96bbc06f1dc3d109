/**
 * What the pairing reports about records while others are still being estimated: a cluster worker acknowledges those that are done
 * (cluster/worker.ts).
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { clusterLoad, framed, type Load } from "../../tests/support/cluster-load.ts";
import { RecordArchive } from "../archive/archive.ts";
import { identityText, recordIdentity } from "../epoch/identity.ts";
import type { EpochRecord } from "../epoch/record.ts";
import { ESTIMATORS } from "../estimators/table.ts";
import type { SegmentRow } from "../results/rows.ts";
import { type Accepted, Ingest } from "./ingest.ts";
import { Pairing } from "./pairing.ts";

const root = mkdtempSync(join(tmpdir(), "hoptime-pairing-"));
const SEGMENT = { from: "A", to: "B", label: "A:B" };
const EPOCHS = 6;
const START_NS = 1_750_000_000_000_000_000n;
const SECOND_NS = 1_000_000_000n;

describe("pairing", () => {
  let load: Load;
  let archive: RecordArchive;
  let accepted: Accepted[];

  beforeAll(async () => {
    load = await clusterLoad([SEGMENT], ["lda"], START_NS);
    archive = await RecordArchive.create(join(root, "records"));
    const records = Array.from({ length: EPOCHS }, (_, e) => load.epoch(e)).flat();
    ({ accepted } = await new Ingest(archive, ESTIMATORS).take(framed(records), null));
  });
  afterAll(() => rmSync(root, { recursive: true, force: true }));

  const pairing = (onRow: (row: SegmentRow) => void, onLate = () => {}) => {
    const made = new Pairing({
      ...{ archive, table: ESTIMATORS, latenessNs: 30n * SECOND_NS, topFlows: 1, namesWaiting: true },
      ...{ onRows: onRow, onRefused: (_, reason) => expect.fail(reason), onLate },
    });
    made.watch(SEGMENT);
    return made;
  };
  const offered = (own: readonly Accepted[]) =>
    own.map((one) => ({ ...one, record: one.record as EpochRecord | null }));
  const nameOf = ({ head }: Accepted) => identityText(recordIdentity(head));
  const epochsOf = (names: readonly string[]) =>
    accepted.filter((one) => names.includes(nameOf(one))).map(({ head }) => epochOf(head.epoch));
  const epochOf = ({ startNs }: { startNs: bigint }) => Number((startNs - START_NS) / SECOND_NS);

  it("names what is still to be estimated of a backlog, not what is done, before all of it is", async () => {
    const seen: { row: number; open: number[] }[] = [];
    const own = pairing((row) => seen.push({ row: epochOf(row), open: epochsOf(own.state().openNames) }));
    own.offer(offered(accepted));
    await own.work();
    expect(seen.map(({ row }) => row)).toEqual([0, 1, 2, 3, 4, 5]);
    for (const { row, open } of seen) {
      const left = [0, 1, 2, 3, 4, 5].filter((epoch) => epoch > row).flatMap((epoch) => [epoch, epoch]);
      expect(open.sort(), `when epoch ${row} is done`).toEqual(left);
    }
    expect(own.state()).toMatchObject({ openNames: [], orders: own.sent });
  });

  it("names a record without its other end, and one that came late until its time is estimated again", async () => {
    const rows: number[] = [];
    const own = pairing((row) => row.missing === 0 && rows.push(epochOf(row)));
    const [late, ...others] = accepted.filter(({ head }) => head.point === "B");
    own.resume(SEGMENT, START_NS + 200n * SECOND_NS, START_NS + 2n * SECOND_NS);
    await own.work();
    rows.length = 0;
    own.offer(offered([late as Accepted]));
    expect(epochsOf(own.state().openNames)).toEqual([0]);
    await own.work();
    expect([rows, own.state().openNames]).toEqual([[0], []]);
    const alone = pairing(() => expect.fail("it waits"));
    alone.offer(offered(others.slice(0, 1)));
    await alone.work();
    expect(epochsOf(alone.state().openNames)).toEqual([1]);
  });

  it("tells a record that waits for its other end alone from those that are still to be estimated", async () => {
    const seen: string[][] = [];
    const own = pairing(() => seen.push(own.state().aloneNames));
    const [sender, receiver] = ["A", "B"].map((point) => accepted.filter(({ head }) => head.point === point));
    own.offer(offered(sender ?? []));
    // The pairing has not run yet.
    expect(own.state()).toMatchObject({ aloneNames: [] });
    await own.work();
    expect(epochsOf(own.state().aloneNames)).toEqual([0, 1, 2, 3, 4, 5]);
    own.offer(offered(receiver?.slice(0, 3) ?? []));
    expect([own.state().aloneNames, own.state().openNames.length]).toEqual([[], 9]);
    await own.work();
    expect(seen.map(epochsOf)).toEqual([
      [3, 4, 5],
      [3, 4, 5],
      [3, 4, 5],
    ]);
  });

  it("gives the same rows whenever the lists of flows come: before the sketches, between them, after the estimate, or when it was given up", async () => {
    const listing = await clusterLoad([SEGMENT], ["lds:rows=2,columns=64", "flows"], START_NS);
    const directory = await RecordArchive.create(join(root, "listing"));
    const records = Array.from({ length: EPOCHS }, (_, e) => listing.epoch(e)).flat();
    const all = offered((await new Ingest(directory, ESTIMATORS).take(framed(records), null)).accepted);
    /** Returns the last row of each epoch, with its flows, when the records arrive in these parts. */
    const rowsOf = async (parts: readonly (typeof all)[], times = new Map<number, number>()) => {
      const rows = new Map<number, string>();
      const own = new Pairing({
        ...{ archive: directory, table: ESTIMATORS, latenessNs: 2n * SECOND_NS, topFlows: 3 },
        onRows: (row, flows) => {
          rows.set(
            epochOf(row),
            String(JSON.stringify([row, flows], (_, v) => (typeof v === "bigint" ? `${v}` : v))),
          );
          times.set(epochOf(row), (times.get(epochOf(row)) ?? 0) + 1);
        },
        onRefused: (_, reason) => expect.fail(reason),
        namesWaiting: true,
      });
      own.watch(SEGMENT);
      for (const part of parts) {
        own.offer(part);
        await own.work();
      }
      return [...rows].sort(([a], [b]) => a - b);
    };
    const of = (estimator: string, point?: string) =>
      all.filter(({ head }) => head.estimator === estimator && (point === undefined || head.point === point));
    const expected = await rowsOf([all]);
    expect(expected).toHaveLength(EPOCHS);
    const [lists, ofA, ofB, sketches] = [of("flows"), of("flows", "A"), of("flows", "B"), of("lds")];
    for (const parts of [
      [lists, sketches],
      [sketches, lists],
      [ofA, sketches, ofB],
      [ofB, sketches, ofA],
      [sketches, ofB, ofA],
      [sketches.slice(0, 6), ofA, sketches.slice(6), ofB],
    ])
      expect(await rowsOf(parts)).toEqual(expected);
    // A flow list that arrives after the estimate causes the epoch to be estimated again.
    const again = new Map<number, number>();
    await rowsOf([ofA, sketches, ofB], again);
    expect([...again.values()]).toEqual([2, 2, 2, 2, 2, 2]);
    // The pairing waits for a point that lists flows: one estimate, not two.
    const times = new Map<number, number>();
    const epoch = (n: number) => all.filter(({ head }) => epochOf(head.epoch) === n);
    const lagging = (n: number) =>
      epoch(n).filter(({ head }) => head.estimator === "flows" && head.point === "B");
    const others = (n: number) => epoch(n).filter((one) => !lagging(n).includes(one));
    await rowsOf([epoch(0), others(1), lagging(1), others(2), lagging(2)], times);
    expect([...times.values()]).toEqual([1, 1, 1]);
    directory.close();
  });

  it("goes on after what is in the results for sure, and pairs what comes then", async () => {
    const rows: number[] = [];
    const own = pairing((row) => rows.push(epochOf(row)));
    const end = START_NS + BigInt(EPOCHS) * SECOND_NS;
    own.resume(SEGMENT, end, START_NS + 4n * SECOND_NS);
    await own.work();
    expect(rows).toEqual([4, 5]);
    const next = load.epoch(EPOCHS);
    const ingested = await new Ingest(archive, ESTIMATORS).take(framed(next), null);
    own.offer(offered(ingested.accepted));
    await own.work();
    expect(rows).toEqual([4, 5, 6]);
  });
});
