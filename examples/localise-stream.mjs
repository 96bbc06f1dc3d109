// Runs the localiser epoch by epoch, as a live collector does: it returns the paths with changes, and the segment to blame.
import { LocaliseStream } from "hoptime";

const path = ["edge", "core", "server"];
const stream = new LocaliseStream({ historyEpochs: 600 });
stream.watch(path);

// What a collector would estimate each second; between core and server, 3 ms are added in seconds 40 to 44.
const second = 1e9;
const estimate = (fromPoint, toPoint, t, meanNs) => ({
  fromPoint,
  toPoint,
  epochStartNs: t * second,
  epochEndNs: (t + 1) * second,
  meanNs,
  lowNs: meanNs - 4000,
  highNs: meanNs + 4000,
  stdevNs: 20_000,
  packets: 1000,
  lost: 0,
});
for (let t = 0; t < 60; t++) {
  const wobble = 5000 * Math.sin(t * 2.4);
  stream.add(estimate("edge", "core", t, 200_000 + wobble));
  const news = stream.add(estimate("core", "server", t, 500_000 - wobble + (t >= 40 && t < 45 ? 3e6 : 0)));
  for (const points of news)
    for (const { segment, fromNs, peakNs, open } of stream.verdicts(points).spikes)
      if (open && fromNs === t * second)
        console.log(`second ${t}: ${segment.from} → ${segment.to} is slow: ${(peakNs / 1e6).toFixed(1)} ms`);
}
const [spike] = stream.verdicts(path).spikes;
console.log(`it lasted ${(spike.toNs - spike.fromNs) / second} s; confidence ${spike.confidence.toFixed(2)}`);

/* Prints:
second 40: core → server is slow: 3.5 ms
it lasted 5 s; confidence 1.00
*/
