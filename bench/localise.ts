/**
 * How large a spike must be for the localiser to blame the right segment, and how often it blames when there is none.
 *
 *   node scripts/bench.mjs localise [runs]
 *
 * Six segments, 160 epochs of one second, ordinary noise of tests/support/path-noise.ts, spikes of 2 to 13 epochs in
 * multiples of the segment's ordinary queueing.
 */
import { Random } from "../src/base/random.ts";
import { localise } from "../src/network/localise.ts";
import { EPOCH_NS, simulatePath } from "../tests/support/path-noise.ts";

const runs = Number(process.argv[2] ?? 500);
const EPOCHS = 160;
process.stdout.write(`${runs} runs each\nspike (x ordinary)  right  wrong segment  cannot tell  missed\n`);
for (const times of [0, 10, 20, 50, 100, 200, 500, 1000]) {
  const tally = { right: 0, wrong: 0, cannotTell: 0, missed: 0 };
  for (let i = 0; i < runs; i++) {
    const random = new Random(`bench ${times} ${i}`);
    const choice = random.fork("choice");
    const segment = choice.below(6);
    const epochs = 2 + choice.below(12);
    const firstEpoch = 10 + choice.below(EPOCHS - 30);
    const path = simulatePath(random, 6, EPOCHS, (ordinaryNs) =>
      times === 0 ? [] : [{ segment, firstEpoch, epochs, excessNs: times * ordinaryNs[segment]! }],
    );
    const { spikes } = localise(path.points, path.estimates);
    const named = spikes.filter((s) => s.segment !== null);
    const hits = named.filter(
      (s) =>
        times > 0 &&
        s.segment!.from === path.points[segment] &&
        s.fromNs < (firstEpoch + epochs) * EPOCH_NS &&
        s.toNs > firstEpoch * EPOCH_NS,
    );
    if (named.length > hits.length) tally.wrong++;
    else if (hits.length > 0) tally.right++;
    else if (spikes.length > 0) tally.cannotTell++;
    else if (times > 0) tally.missed++;
    else tally.right++;
  }
  const percent = (n: number) => `${((100 * n) / runs).toFixed(1)} %`;
  process.stdout.write(
    `${(times === 0 ? "none" : String(times)).padStart(18)}  ${percent(tally.right).padStart(7)}  ${percent(tally.wrong).padStart(7)}  ` +
      `${percent(tally.cannotTell).padStart(7)}  ${percent(tally.missed).padStart(7)}\n`,
  );
}
