/**
 * Computes what networks of 100 to 10,000 points need (docs/scaling.md) from the cost of a record (bench cluster cost, bench cluster run). There is one record
 * per second, point and estimator with 1 s epochs.
 *
 *   node scripts/bench.mjs cluster-sizing --worker US --brokers US --clickhouse US --bytes BYTES [--epoch 1] [--pps 200] [--share 0.6]
 *
 * --worker, --brokers, --clickhouse: CPU microseconds per record; --bytes: size of a record; --pps: packets per second of a point; --share: maximum utilisation
 * of a processor.
 */
import { parseArgs } from "node:util";

const text = (value: string) => ({ type: "string", default: value }) as const;
const { values } = parseArgs({
  options: {
    ...{ worker: text("1000"), brokers: text("300"), clickhouse: text("60"), bytes: text("3650") },
    ...{ epoch: text("1"), pps: text("200"), share: text("0.6") },
  },
});
const [worker, brokers, clickhouse, bytes, epoch, pps, share] = (
  ["worker", "brokers", "clickhouse", "bytes", "epoch", "pps", "share"] as const
).map((name) => {
  const value = Number(values[name]);
  if (!(value > 0)) throw new Error(`--${name}: a number above 0`);
  return value;
}) as [number, number, number, number, number, number, number];

console.log(
  "| points | records/s | workers of one processor | processors of brokers | processors of ClickHouse | into the stream, MB/s | stream of 3 days, GB a copy |\n| --- | --- | --- | --- | --- | --- | --- |",
);
for (const points of [100, 300, 1000, 3000, 10_000]) {
  const rate = points / epoch;
  const cells = [
    ...[points, rate.toFixed(0), Math.max(1, Math.ceil((rate * worker) / 1e6 / share))],
    ...[((rate * brokers) / 1e6).toFixed(2), ((rate * clickhouse) / 1e6).toFixed(2)],
    ...[((rate * bytes) / 1e6).toFixed(1), ((rate * bytes * 86_400 * 3) / 1e9).toFixed(0)],
  ];
  console.log(`| ${cells.join(" | ")} |`);
}
const perMillion = (worker + brokers + clickhouse) / (pps * epoch);
console.log(`\nCPU per million packets: ${perMillion.toFixed(2)} s (${pps} packets/s at a point)`);
for (const busy of [10_000, 100_000])
  console.log(
    `CPU per million packets: ${((worker + brokers + clickhouse) / (busy * epoch)).toFixed(3)} s (${busy} packets/s at a point)`,
  );
