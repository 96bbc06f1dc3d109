/**
 * A simulated network with known true delays: traffic -> sender -> queues, delays, loss -> receiver. It works as a stream: memory is bounded by the number of
 * flows active at once and of packets in transit. The same scenario and seed give the same bits in every mode.
 *
 * There are three views, each with its own run:
 *   combined()  one pass, rows in order of sending: time = send time, delay = true delay, NaN = lost
 *   observe()   what each point sees, as it happens: { point, batch } in lockstep; at("receiver") is the stream of one point
 *   flows()     true delays per flow
 *
 * Times are whole ns. The delay is the true one; the clock of a point changes only the time column. A batch is valid until the next one is requested; the
 * caller may key and filter it. Limit: the simulation is open loop, like those of the papers: flows do not slow down when packets are lost.
 */

import { UsageError } from "../base/errors.ts";
import type { Kernels } from "../base/kernels.ts";
import { entryAt } from "../base/lists.ts";
import { turnOf } from "../base/turn.ts";
import { PacketBatch } from "../capture/batch.ts";
import type { FlowKeySpec } from "../capture/flow/flow-key.ts";
import { isSpaced } from "./delays.ts";
import { checkHops, makeStage } from "./hops.ts";
import { inject } from "./injector.ts";
import { type Hop, RECEIVER, type Scenario, SENDER, SIMULATED_FLAG, type Traffic } from "./scenario.ts";
import { checkScenario } from "./scenario-schema.ts";
import { inTurn, openProbes, openSource, type Source } from "./source.ts";
import type { HopStatistics, Stage } from "./stage.ts";
import {
  fromSource,
  merge,
  Observations,
  observePoint,
  passAndSort,
  passInPlace,
  resequence,
  timestampOrder,
} from "./streams.ts";
import { FlowTruthTable } from "./truth.ts";

export interface Offered {
  packets: number;
  bytes: number;
  durationNs: number;
}

/** One packet with its true delay, or lost. */
export interface PacketTruth {
  /** Digest as [low, high]. */
  digest: [number, number];
  sentNs: number;
  /** Null: lost. */
  delayNs: number | null;
  wireLength: number;
  /** Kind of own packet: reference or probe; null for the traffic. */
  own: "reference" | "probe" | null;
}

export interface Observation {
  point: string;
  batch: PacketBatch;
}

// Random streams and packet number ranges of the parts of a simulation.
const STREAM = { traffic: 1, probes: 2, hop: 100, clock: 10_000, cross: 20_000 } as const;
/** Distance between the random streams of consecutive cross traffic. */
const CROSS_STEP = 1000;
const NUMBERS = { traffic: 0, probes: 1, references: 2, cross: 16 } as const;

export interface SimulateOptions {
  /** Aborts the first pass, which generates the traffic once before the first batch. Batches end when their reader stops. */
  signal?: AbortSignal | undefined;
}

export function simulate(kernels: Kernels, scenario: Scenario, options: SimulateOptions = {}): Simulation {
  return new Simulation(kernels, scenario, options);
}

export class Simulation {
  readonly kernels: Kernels;
  readonly scenario: Scenario;
  readonly seed: number;
  /** All observation points in path order. */
  readonly points: readonly string[];
  #offered: Promise<Offered> | undefined;
  #statistics: HopStatistics[] = [];

  readonly #signal: AbortSignal | undefined;

  constructor(kernels: Kernels, scenario: Scenario, options: SimulateOptions = {}) {
    this.#signal = options.signal;
    checkScenario(scenario);
    checkHops(scenario);
    this.kernels = kernels;
    this.scenario = scenario;
    this.seed = scenario.seed ?? 1;
    const names = scenario.path.flatMap((h) => (h.point === undefined ? [] : [h.point]));
    this.points = [SENDER, ...names, RECEIVER];
    if (new Set(this.points).size !== this.points.length)
      throw new UsageError(
        "bad-parameter",
        `points must have different names: ${this.points.join(", ")}`,
        "sender and receiver are the two ends",
      );
    for (const name of this.points)
      if (!/^[\p{L}\p{N}_][\p{L}\p{N}_.-]{0,63}$/u.test(name))
        throw new UsageError(
          "bad-parameter",
          `invalid point name '${name}'`,
          "its capture is named after it: letters, digits, '_', and after the first character also '.' and '-'",
        );
    for (const name of Object.keys(scenario.clocks ?? {}))
      if (!this.points.includes(name)) throw new UsageError("bad-parameter", `clocks.${name}: no such point`);
  }

  /** Returns packets, bytes and duration of the traffic, found by generating it once (without probes, references and cross traffic). */
  offered(): Promise<Offered> {
    this.#offered ??= this.#measure(this.scenario.traffic, STREAM.traffic);
    return this.#offered;
  }

  /** Statistics of the last run, as far as it went. */
  get statistics(): readonly HopStatistics[] {
    return this.#statistics;
  }

  /** Returns one row per packet in order of sending: time = true send time, delay NaN = lost. */
  async *combined(): AsyncGenerator<PacketBatch> {
    yield* this.#run(null, []);
  }

  /** Returns what the given points (default: all) see, each in its own order of arrival. */
  async *observe(points: readonly string[] = this.points): AsyncGenerator<Observation> {
    for (const p of points)
      if (!this.points.includes(p))
        throw new UsageError("bad-parameter", `no such point '${p}'`, `points: ${this.points.join(", ")}`);
    const seen = new Observations(this.kernels);
    const run = this.#run(seen, points);
    try {
      for (;;) {
        const { done } = await run.next();
        yield* seen.drain();
        if (done) return;
      }
    } finally {
      await run.return(undefined);
      seen.free();
    }
  }

  /** Returns the stream of one point. */
  async *at(point: string): AsyncGenerator<PacketBatch> {
    for await (const { batch } of this.observe([point])) yield batch;
  }

  /** Returns the true delays per flow. The caller frees the table. */
  async flows(options: { key?: FlowKeySpec; seed?: bigint } = {}): Promise<FlowTruthTable> {
    const table = new FlowTruthTable(this.kernels, options);
    for await (const batch of this.combined()) table.update(batch);
    return table;
  }

  /** Returns the true delay of every packet, in order of sending. For small traces; batches are faster. */
  async *packets(): AsyncGenerator<PacketTruth> {
    for await (const batch of this.combined()) {
      // Copies, because the caller may grow (move) kernel memory between packets.
      const [digest, timeNs, delayNs] = [batch.digest.slice(), batch.timeNs.slice(), batch.delayNs.slice()];
      const [wireLength, flags, count] = [batch.wireLength.slice(), batch.flags.slice(), batch.count];
      for (let i = 0; i < count; i++) {
        yield {
          digest: [digest[2 * i]!, digest[2 * i + 1]!],
          sentNs: timeNs[i]!,
          delayNs: Number.isNaN(delayNs[i]!) ? null : delayNs[i]!,
          wireLength: wireLength[i]!,
          own:
            (flags[i]! & SIMULATED_FLAG.reference) !== 0
              ? "reference"
              : (flags[i]! & SIMULATED_FLAG.probe) !== 0
                ? "probe"
                : null,
        };
      }
    }
  }

  /** All modes use this one chain of stages, so they agree on the fate of every packet. */
  async *#run(seen: Observations | null, points: readonly string[]): AsyncGenerator<PacketBatch> {
    const { kernels, scenario, seed } = this;
    const stages: Stage[] = [];
    const finish = () => {
      this.#statistics = stages.map((s) => s.statistics());
      for (const s of stages) s.free();
    };
    try {
      for (const [i, hop] of scenario.path.entries()) stages.push(await this.#stage(i, hop));
      let batches: AsyncIterable<PacketBatch> = await this.#traffic();
      if (scenario.inject) {
        const identity = { seed, stream: 0, kind: NUMBERS.references };
        const rates = stages.map((stage) => stage.statistics().rateBps);
        const rateBps = rates.find((rate) => rate !== null) ?? null;
        batches = inject(kernels, batches, scenario.inject({ kernels, rateBps }), identity);
      }
      const first = scenario.path[0];
      const spaced = first?.kind === "delay" && isSpaced(first.model);
      if (spaced) batches = passInPlace(batches, entryAt(stages, 0));
      let inSendingOrder = true;
      const last = scenario.path.length - 1;
      const tap = (name: string, position: number) => {
        if (!seen || !points.includes(name)) return;
        const clock = scenario.clocks?.[name] ?? {};
        const point = { name, sender: name === SENDER, clock, seed, stream: STREAM.clock + position };
        batches = observePoint(kernels, batches, seen, point);
      };
      batches = timestampOrder(kernels, batches);
      tap(SENDER, 0);
      for (const [i, hop] of scenario.path.entries()) {
        const stage = entryAt(stages, i);
        if (stage.run) {
          batches = stage.run(batches);
          inSendingOrder = false;
        } else if (stage.ordered) {
          if (!(spaced && i === 0)) batches = passInPlace(batches, stage);
        } else if (i === last && !seen) batches = passInPlace(batches, stage);
        else {
          batches = passAndSort(kernels, batches, stage);
          inSendingOrder = false;
        }
        if (hop.point !== undefined) tap(hop.point, i + 1);
      }
      tap(RECEIVER, last + 2);
      if (!seen && !inSendingOrder) batches = resequence(kernels, batches);
      yield* batches;
    } finally {
      finish();
    }
  }

  async #traffic(): Promise<AsyncIterable<PacketBatch>> {
    const { kernels, scenario, seed } = this;
    const identity = { seed, stream: STREAM.traffic, kind: NUMBERS.traffic };
    const source = await openSource(kernels, scenario.traffic, identity);
    if (!scenario.probes) return fromSource(kernels, source);
    const durationNs = source.durationNs ?? (await this.offered()).durationNs;
    const probes = openProbes(kernels, scenario.probes, durationNs / 1e9, {
      seed,
      stream: STREAM.probes,
      kind: NUMBERS.probes,
    });
    return merge(kernels, source, probes);
  }

  async #measure(traffic: Traffic, stream: number): Promise<Offered> {
    const { kernels, seed } = this;
    const turn = turnOf(this.#signal);
    const source = await openSource(kernels, traffic, { seed, stream, kind: 0 });
    const batch = new PacketBatch(kernels);
    let packets = 0;
    let bytes = 0;
    let lastNs = 0;
    try {
      for (;;) {
        await source.fill(batch);
        if (batch.count === 0) break;
        await turn();
        this.#signal?.throwIfAborted();
        packets += batch.count;
        bytes += kernels.call.simBytes(batch.address) as number;
        lastNs = batch.timeNs[batch.count - 1]!;
      }
    } finally {
      source.free();
      batch.free();
    }
    return { packets, bytes, durationNs: source.durationNs ?? lastNs };
  }

  async #stage(index: number, hop: Hop): Promise<Stage> {
    const { kernels, seed } = this;
    const crossTraffic = hop.kind === "queue" || hop.kind === "classes" ? hop.cross : undefined;
    let cross: { source: Source; bytes: number } | undefined;
    if (crossTraffic) {
      const stream = STREAM.cross + index;
      let bytes = 0;
      const sources: Source[] = [];
      for (const [i, traffic] of [crossTraffic].flat().entries()) {
        if (solves(hop)) bytes += (await this.#measure(traffic, stream + CROSS_STEP * i)).bytes;
        const identity = { seed, stream: stream + CROSS_STEP * i, kind: NUMBERS.cross + index };
        sources.push(await openSource(kernels, traffic, identity));
      }
      cross = { source: inTurn(sources), bytes };
    }
    // The traffic is generated once more only if a drain rate has to be found.
    const offered = solves(hop) ? await this.offered() : { packets: 0, bytes: 0, durationNs: 0 };
    return makeStage({ kernels, seed, hop: index, stream: STREAM.hop + index, offered, cross }, hop);
  }
}

function solves(hop: Hop): boolean {
  if (hop.kind === "queue" || hop.kind === "classes") return hop.rateBps === undefined;
  return hop.kind === "paths" && hop.paths.some((p) => p.rateBps === undefined);
}
