import { Kernels } from "../src/base/kernels.ts";
import { PacketBatch } from "../src/capture/batch.ts";
import { SketchTap } from "../src/estimators/lds/tap.ts";
import { differenceOf } from "../src/estimators/lds/difference.ts";
import { decodeCells } from "../src/estimators/lds/payload.ts";
import { layFlows } from "../src/estimators/lds/flow-set.ts";
import { fitBackground } from "../src/estimators/lds/variance.ts";
import { propagateBeliefs } from "../src/estimators/lds/belief.ts";
import { CellRules } from "../src/estimators/lds/cell-rules.ts";
import { eachPacket, makePopulation } from "../tests/flow-population.ts";
import { Random } from "../src/base/random.ts";
import { median } from "../src/base/regression.ts";

const lap = (s: string) => console.log((process.cpuUsage().user / 1e6).toFixed(2), s);
const loss = Number(process.argv[2] ?? 0), k = Number(process.argv[3] ?? 1), columns = Number(process.argv[4] ?? 17500), rates = (process.argv[5] ?? "1/1/1/1").split("/").map(Number);
const shape = Number(process.argv[6] ?? 0.8), maxP = Number(process.argv[7] ?? 154000), jitter = Number(process.argv[8] ?? 0.1);
const pop = makePopulation({ flows: 146_000, shape, maxPackets: maxP, seed: 1, jitter });
lap(`population ${pop.packets} packets`);
const kernels = new Kernels();
const batch = new PacketBatch(kernels);
const geometry = { rows: 4, columns, k, rates, weights: "" };
const opt = { geometry, seed: 7n, digestBits: 16, bytes: false, delays: false };
const taps = [new SketchTap(kernels, opt), new SketchTap(kernels, opt)] as const;
const b2 = new PacketBatch(kernels);
for (const t of taps) t.begin(0);
const sum = new Float64Array(pop.flows), got = new Float64Array(pop.flows);
const rnd = new Random(99);
let n = 0, m = 0;
let spent = 0;
const cols = () => ({ t: batch.timeNs, d: batch.digest, h: batch.flowHash, t2: b2.timeNs, d2: b2.digest, h2: b2.flowHash });
let c = cols();
const flush = () => { batch.count = n; b2.count = m; const s = performance.now(); taps[0].update(batch, 0, n); taps[1].update(b2, 0, m); spent += performance.now() - s; n = 0; m = 0; c = cols(); };
eachPacket(pop, 10e9, (f, lo, hi, send, delay) => {
  c.t[n] = send; c.d[2 * n] = lo; c.d[2 * n + 1] = hi; c.h[2 * n] = pop.hash[2 * f]!; c.h[2 * n + 1] = pop.hash[2 * f + 1]!; n++;
  if (!(loss > 0 && rnd.bernoulli(loss))) {
    c.t2[m] = send + delay; c.d2[2 * m] = lo; c.d2[2 * m + 1] = hi; c.h2[2 * m] = pop.hash[2 * f]!; c.h2[2 * m + 1] = pop.hash[2 * f + 1]!; m++;
    sum[f]! += delay; got[f]!++;
  }
  if (n === batch.capacity) flush();
});
flush();
lap(`updates ${spent.toFixed(0)} ms`);
const sealed = taps.map((t) => t.seal());
lap(`sealed ${sealed.map((s) => s.payload.length)}`);
const sk = differenceOf(geometry, 7n, decodeCells(sealed[0]!.payload), decodeCells(sealed[1]!.payload));
lap("difference");
console.log(sk.rows);
const flows = { count: pop.flows, hash: pop.hash, packets: Float64Array.from(pop.size), bytes: new Float64Array(pop.flows), keyWords: new Uint32Array(0), complete: true };
const set = layFlows(sk, flows);
lap("laid");
const list: number[] = [];
sk.usable.forEach((u, i) => { if (u) list.push(i); });
const bg = fitBackground(Uint32Array.from(list), sk.delaySumNs, sk.received);
lap("background");
const rounds = Number(process.env.ROUNDS ?? 30);
const bp = propagateBeliefs(sk, set, bg, rounds);
lap(`bp rounds ${bp.rounds} common ${bp.commonNs} V ${Math.sqrt(bp.flowVariance)} s ${Math.sqrt(bp.packetVariance)}`);
const rules = new CellRules(sk, set, bg, bp.packetVariance);
const classes: [number, number][] = [[1, 1], [2, 9], [10, 99], [100, 499], [500, 999], [1000, 4999], [5000, 1e9]];
type D = (f: number) => { meanNs: number; variance: number } | null;
const ds: Record<string, D> = {
  smallest: (f) => rules.smallest(f), alpha: (f) => rules.alpha(f, 0.1), background: (f) => rules.background(f),
  bp: (f) => Number.isNaN(bp.variance[f]!) ? null : { meanNs: bp.meanNs[f]!, variance: bp.variance[f]! },
};
for (const [name, d] of Object.entries(ds)) {
  let line = name.padEnd(12);
  for (const [lo, hi] of classes) {
    const err: number[] = []; let cover = 0, tot = 0, none = 0;
    for (let f = 0; f < pop.flows; f++) {
      if (pop.size[f]! < lo || pop.size[f]! > hi || got[f] === 0) continue;
      const e = d(f); tot++;
      if (!e) { none++; continue; }
      const truth = sum[f]! / got[f]!;
      err.push(Math.abs(e.meanNs - truth) / truth);
      if (Math.abs(e.meanNs - truth) <= 1.96 * Math.sqrt(e.variance)) cover++;
    }
    line += ` | ${((median(err) ?? NaN) * 100).toFixed(3)}% c${(100 * cover / (tot - none)).toFixed(0)} n${none}/${tot}`;
  }
  console.log(line);
}
lap("done");
