/**
 * A whole network of points in simulated time, as fast as it goes: every link is a queue with traffic of its own, with a tap at either end. Their records are real ones and go where records of `observe` go;
 * what really happened on each link and epoch is kept beside them.
 *
 * Links are simulated one by one, in turns: a packet that crosses two links is drawn anew on the second. Questions about a segment have the truth beside them; those about one packet over several links have none.
 */
import { Kernels } from "../base/kernels.ts";
import { turnOf } from "../base/turn.ts";
import { FlowKeySpec } from "../capture/flow/flow-key.ts";
import {
  MEAN_PACKET_BYTES,
  type NetworkLink,
  type SimulatedNetwork,
} from "../network/traffic/network-file.ts";
import { PointObserver, type TapPlan } from "../observe/observer.ts";
import { Outbox } from "../observe/outbox.ts";
import type { RecordSink } from "../observe/record-sink.ts";
import { RECEIVER, type Scenario, SENDER } from "../simulate/scenario.ts";
import { type Observation, simulate } from "../simulate/simulate.ts";

export interface NetworkRunOptions {
  network: SimulatedNetwork;
  taps: readonly TapPlan[];
  epochNs: bigint;
  durationS: number;
  seed: number;
  /** ns since 1970 of the simulation's time 0: a whole number of epochs. */
  originNs: bigint;
  sink: RecordSink;
  onEpochs: (link: NetworkLink, epochs: readonly EpochTruth[]) => void;
  /** Every few seconds: links that are over, of how many, and what has come of them and of those under way. */
  onProgress?: ((links: number, of: number, run: Readonly<NetworkRun>) => void) | undefined;
  signal?: AbortSignal | undefined;
}

export interface EpochTruth {
  startNs: bigint;
  endNs: bigint;
  /** Packets that entered the link in this epoch, and those of them that never left it. */
  sent: number;
  lost: number;
  /** Of those that did; null where none did. */
  meanNs: number | null;
  /** Of those that left it in the same epoch: what epochs that are cut by time are about. */
  withinMeanNs: number | null;
}

export interface NetworkRun {
  packets: number;
  records: number;
  bytes: number;
}

const SIZES = { share1500: 0.4, share576: 0.2 };
const COVER = 64;
/** Links that are under way at once: each holds batches in the kernels' memory. */
const AT_ONCE = 64;
const QUEUE_PACKETS = 200;
const PROGRESS_MS = 5000;

/** When it resolves all records are durable where they went. */
export async function runNetwork(options: NetworkRunOptions): Promise<NetworkRun> {
  const { network, sink, signal, onProgress } = options;
  let saidMs = performance.now();
  const run: NetworkRun = { packets: 0, records: 0, bytes: 0 };
  const outbox = new Outbox(sink, ({ payload }) => {
    run.records++;
    run.bytes += payload.length;
  });
  outbox.release();
  // A simulation never waits: a signal would be heard only where the sink is slow.
  const turn = turnOf(signal);
  for (let at = 0; at < network.links.length; at += AT_ONCE) {
    // A fresh memory for each group: kernels never shrink.
    const kernels = new Kernels();
    const group = network.links.slice(at, at + AT_ONCE);
    const running = group.map((link, i) => new RunningLink(kernels, link, at + i, options, outbox));
    try {
      for (let open = running; open.length > 0; ) {
        const next: RunningLink[] = [];
        for (const link of open) {
          await turn();
          if (signal?.aborted) return run;
          if (await link.step(run)) next.push(link);
          if (outbox.needsRoom) await outbox.room();
          if (performance.now() - saidMs < PROGRESS_MS) continue;
          saidMs = performance.now();
          onProgress?.(at + group.length - open.length, network.links.length, run);
        }
        open = next;
      }
    } finally {
      for (const link of running) await link.close();
    }
  }
  await outbox.empty();
  return run;
}

class RunningLink {
  readonly #link: NetworkLink;
  readonly #options: NetworkRunOptions;
  readonly #kernels: Kernels;
  readonly #ends: Map<string, PointObserver>;
  readonly #seen: AsyncIterator<Observation>;
  readonly #mask: number;
  readonly #sent: Float64Array;
  readonly #arrived: Float64Array;
  readonly #delays: Float64Array;
  readonly #within: Float64Array;
  readonly #withinDelays: Float64Array;

  constructor(
    kernels: Kernels,
    link: NetworkLink,
    index: number,
    options: NetworkRunOptions,
    outbox: Outbox,
  ) {
    const { taps, epochNs, durationS, seed } = options;
    this.#kernels = kernels;
    this.#link = link;
    this.#options = options;
    const end = (point: string, role: "sender" | "receiver") =>
      new PointObserver({
        ...{
          kernels,
          point,
          role,
          segment: `${link.from}:${link.to}`,
          taps,
          key: "5tuple",
          cover: COVER,
          seed: 1n,
        },
        cut: { mode: "aligned", lengthNs: epochNs },
        onRecord: (record, how) => outbox.put(record, how),
      });
    this.#ends = new Map([
      [SENDER, end(link.from, "sender")],
      [RECEIVER, end(link.to, "receiver")],
    ]);
    this.#mask = FlowKeySpec.parse().store(kernels);
    this.#seen = simulate(kernels, scenarioOf(link, durationS, 1000 * seed + index))
      .observe([SENDER, RECEIVER])
      [Symbol.asyncIterator]();
    const epochs = Math.ceil((durationS * 1e9) / Number(epochNs));
    this.#sent = new Float64Array(epochs);
    this.#arrived = new Float64Array(epochs);
    this.#delays = new Float64Array(epochs);
    this.#within = new Float64Array(epochs);
    this.#withinDelays = new Float64Array(epochs);
  }

  /** The next batch of it; false when it is over. */
  async step(run: NetworkRun): Promise<boolean> {
    const { value, done } = await this.#seen.next();
    if (done) {
      for (const end of this.#ends.values()) end.finish();
      this.#options.onEpochs(this.#link, this.#truth());
      return false;
    }
    const { point, batch } = value as Observation;
    this.#kernels.call.keyFlows(batch.address, this.#mask, 1n);
    const { timeNs, delayNs, count } = batch;
    const lengthNs = Number(this.#options.epochNs);
    if (point === SENDER) {
      run.packets += count;
      for (let i = 0; i < count; i++) this.#sent[Math.floor(timeNs[i]! / lengthNs)]!++;
    } else
      for (let i = 0; i < count; i++) {
        const epoch = Math.floor((timeNs[i]! - delayNs[i]!) / lengthNs);
        this.#arrived[epoch]!++;
        this.#delays[epoch]! += delayNs[i]!;
        if (Math.floor(timeNs[i]! / lengthNs) !== epoch) continue;
        this.#within[epoch]!++;
        this.#withinDelays[epoch]! += delayNs[i]!;
      }
    this.#ends.get(point)?.feed(batch, this.#options.originNs);
    return true;
  }

  async close(): Promise<void> {
    await this.#seen.return?.();
    for (const end of this.#ends.values()) end.free();
    this.#kernels.free(this.#mask);
  }

  #truth(): EpochTruth[] {
    const { originNs, epochNs } = this.#options;
    return Array.from(this.#sent, (sent, i) => {
      const arrived = this.#arrived[i] ?? 0;
      const startNs = originNs + BigInt(i) * epochNs;
      const meanNs = arrived > 0 ? (this.#delays[i] ?? 0) / arrived : null;
      const within = this.#within[i] ?? 0;
      const withinMeanNs = within > 0 ? (this.#withinDelays[i] ?? 0) / within : null;
      return { startNs, endNs: startNs + epochNs, sent, lost: sent - arrived, meanNs, withinMeanNs };
    });
  }
}

function scenarioOf(link: NetworkLink, durationS: number, seed: number): Scenario {
  const { ratePps, capacityBps, propagationNs, incidents } = link;
  const meanBits = 8 * MEAN_PACKET_BYTES;
  const cross = incidents.map(({ startS, durationS: lengthS, load }) => ({
    ...({ kind: "population", startS, durationS: lengthS, flows: 20, sizes: SIZES } as const),
    ratePps: Math.max(1, (load * capacityBps) / meanBits - ratePps),
  }));
  return {
    seed,
    traffic: { kind: "population", ratePps, durationS, flows: 50, sizes: SIZES },
    path: [
      {
        ...{ kind: "queue", rateBps: capacityBps, propagationNs, capacityPackets: QUEUE_PACKETS },
        ...(cross.length > 0 ? { cross } : {}),
      },
    ],
  };
}
