/**
 * Simulates a whole network of points, as fast as possible. Every link is a queue with its own traffic and a tap at each end. The records are real ones and go
 * where records of `observe` go; the true values per link and epoch are passed to `onEpochs`.
 *
 * Links are simulated separately, in turns, so a packet does not cross two links. Answers about a segment can be compared with the truth; answers about a
 * packet over several links cannot.
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
  /** Time 0 of the simulation in ns since 1970; a whole number of epochs. */
  originNs: bigint;
  sink: RecordSink;
  onEpochs: (link: NetworkLink, epochs: readonly EpochTruth[]) => void;
  /** Called every few seconds with the number of finished links, the number of links, and the totals so far. */
  onProgress?: ((links: number, of: number, run: Readonly<NetworkRun>) => void) | undefined;
  signal?: AbortSignal | undefined;
}

export interface EpochTruth {
  startNs: bigint;
  endNs: bigint;
  /** Packets that entered the link in this epoch, and those of them that were lost. */
  sent: number;
  lost: number;
  /** Mean delay of those that arrived; null if none did. */
  meanNs: number | null;
  /** Mean delay of those that left the link in the same epoch: the packets that count in an epoch cut by time. */
  withinMeanNs: number | null;
}

export interface NetworkRun {
  packets: number;
  records: number;
  bytes: number;
}

const SIZES = { share1500: 0.4, share576: 0.2 };
const COVER = 64;
/** Maximum number of links simulated at once: each needs batches in kernel memory. */
const AT_ONCE = 64;
const QUEUE_PACKETS = 200;
const PROGRESS_MS = 5000;

/** Resolves when the sink has stored all records durably. */
export async function runNetwork(options: NetworkRunOptions): Promise<NetworkRun> {
  const { network, sink, signal, onProgress } = options;
  let saidMs = performance.now();
  const run: NetworkRun = { packets: 0, records: 0, bytes: 0 };
  const outbox = new Outbox(sink, ({ payload }) => {
    run.records++;
    run.bytes += payload.length;
  });
  outbox.release();
  // A simulation never waits for input; without these turns an abort signal would have an effect only if the sink is slow.
  const turn = turnOf(signal);
  for (let at = 0; at < network.links.length; at += AT_ONCE) {
    // New kernels for each group, because kernel memory never shrinks.
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

  /** Processes the next batch; returns false at the end. */
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
