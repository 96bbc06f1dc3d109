/**
 * Observes an interface with eBPF programs that keep the sketches in the kernel (src/capture/ebpf/); user space seals them at the end of each
 * epoch. No packet is copied. Runs until the signal aborts or the interface disappears; then the open epoch is sealed and everything sealed is
 * durable.
 */
import { cpus } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { UsageError } from "../base/errors.ts";
import { countOf, formatBytes } from "../base/quantity.ts";
import type { Attached } from "../capture/ebpf/bpf-link.ts";
import { cellPlaces } from "../capture/ebpf/kernel-layout.ts";
import { KernelSketch } from "../capture/ebpf/kernel-sketch.ts";
import { FlowKeySpec } from "../capture/flow/flow-key.ts";
import { type CaptureStatistics, DEFAULT_SEED } from "../capture/reader.ts";
import { SystemClock } from "../capture/source/interface/system-clock.ts";
import { systemClock } from "../capture/source/live-clock.ts";
import type { Cutter } from "../epoch/epoch-sink.ts";
import {
  type ChosenLane,
  type ChosenPart,
  chooseLanes,
  chooseParts,
  choosePlaces,
  type Place,
  refusePackets,
  setsFor,
} from "./kernel-choice.ts";
import { KernelCutter } from "./kernel-cutter.ts";
import { KernelDelimitedCutter } from "./kernel-delimited-cutter.ts";
import { KernelEpochs } from "./kernel-epochs.ts";
import type { Lane } from "./lane.ts";
import { flushQuietly, type ObserveResult, tapState } from "./observe.ts";
import { OBSERVE_COVER, type ObserveCapturesOptions } from "./observe-captures.ts";
import { type ObserverOptions, PointObserver } from "./observer.ts";
import { Outbox } from "./outbox.ts";

/** How the kernel observes an interface. */
export interface KernelOptions {
  /** Attach point; default: the first that works. */
  place?: Place | undefined;
  /** Called if an attach point does not work, with what is used instead. */
  onFallback?: (text: string) => void;
}

export interface ObserveKernelOptions extends Omit<ObserveCapturesOptions, "files"> {
  /** Name of the interface. */
  name: string;
  ebpf: KernelOptions;
}

/** Programs cannot be loaded or attached here; captures can do the same at a higher cost. */
export class KernelUnavailable extends UsageError {}

const MAX_WAIT_MS = 100;
const DELIMITED_WAIT_MS = 20;
const ALIVE_MS = 1000;
/** Wait after detaching, until running programs are done. */
const LINGER_MS = 15;

export async function observeKernel(options: ObserveKernelOptions): Promise<ObserveResult> {
  const { name, taps, cut, sink, seed = DEFAULT_SEED, signal } = options;
  refusePackets(options);
  const lanes = chooseLanes(options.lanes);
  const parts = chooseParts(taps, seed);
  const cover = options.cover ?? OBSERVE_COVER;
  const key = FlowKeySpec.parse(options.key);
  const below = cut.mode === "delimited" ? Math.floor(2 ** 32 / cut.every) : null;
  const { cells } = cellPlaces(parts.map(({ part }) => part));
  const outbox = new Outbox(sink, options.onRecord);
  outbox.release();
  const start = (sketch: KernelSketch, { lane }: ChosenLane) =>
    new Running(options, { sketch, lane, parts, key, cover, outbox });
  const { running, attached } = await attachFirst(options, lanes, start, {
    ...{ seed, cover, below, mask: key.maskWords() },
    sets: setsFor(cut, cells * lanes.length, cpus().length),
    parts: parts.map(({ part }) => part),
  });
  try {
    options.interface?.onOpen?.(openText(running, attached, lanes));
    const gone = await Promise.all(running.map((own) => own.run(signal)));
    await sleep(LINGER_MS);
    for (const { observer } of running) observer.finish(systemClock());
    await outbox.empty();
    return resultOf(running, outbox, gone.includes(true) ? `${name}: the interface is gone` : null);
  } catch (error) {
    await flushQuietly(sink);
    throw error;
  } finally {
    for (const own of running) own.free();
  }
}

/** Attaches all lanes at the first attach point that works for all of them. */
async function attachFirst(
  { name, ebpf, interface: own = {} }: ObserveKernelOptions,
  lanes: readonly ChosenLane[],
  start: (sketch: KernelSketch, lane: ChosenLane) => Running,
  plan: Omit<KernelSketch["plan"], "name" | "place" | "direction" | "filter">,
): Promise<{ running: Running[]; attached: Attached }> {
  const { direction, places } = choosePlaces(ebpf.place, own, lanes.length);
  let problem: UsageError | null = null;
  for (const place of places) {
    const running: Running[] = [];
    let attached: Attached | null = null;
    try {
      for (const lane of lanes) {
        const sketch = await KernelSketch.load({ ...plan, name, place, direction, filter: lane.filter });
        try {
          running.push(start(sketch, lane));
        } catch (error) {
          sketch.close();
          throw error;
        }
      }
      for (const each of running) attached = each.begin();
      if (!attached) throw new Error("no lane to observe");
      if (problem) ebpf.onFallback?.(`${problem.message}; ${place} is used`);
      return { running, attached };
    } catch (error) {
      for (const each of running) each.free();
      if (!(error instanceof UsageError) || error.code !== "not-supported") throw error;
      problem ??= error;
    }
  }
  if (!problem) throw new Error("no place to attach at");
  const { message, hint } = problem;
  throw new KernelUnavailable("not-supported", message, hint, { value: name });
}

/** Combines the lanes' results: all saw the same packets, but each counted its own. */
function resultOf(running: readonly Running[], outbox: Outbox, partial: string | null): ObserveResult {
  const [first] = running;
  if (!first) throw new Error("no lane was observed");
  const sums = running.map(({ observer }) => observer.sums);
  const add = (of: (own: (typeof sums)[number]) => number) => sums.reduce((n, own) => n + of(own), 0);
  return {
    captures: [
      { ...first.statistics(), partial, warnings: running.flatMap((own) => own.warnings(own === first)) },
    ],
    delays: null,
    lanes: running.map((own) => own.lane()),
    memoryBytes: running.reduce((n, own) => n + own.memoryBytes, 0),
    records: outbox.counts,
    written: outbox.written,
    refusals: outbox.refusals,
    ...{ epochs: add((s) => s.epochs), short: add((s) => s.short), backward: add((s) => s.backward) },
  };
}

interface RunningParts {
  sketch: KernelSketch;
  lane: Lane;
  parts: readonly ChosenPart[];
  key: FlowKeySpec;
  cover: number;
  outbox: Outbox;
}

class Running {
  readonly observer: PointObserver;
  readonly #epochs: KernelEpochs;
  readonly #cutter: Cutter & { dueNs?: bigint | null };
  readonly #of: RunningParts;
  readonly #name: string;
  readonly #signal: AbortSignal | undefined;

  constructor(options: ObserveKernelOptions, of: RunningParts) {
    const { kernels, point, taps, cut, seed = DEFAULT_SEED } = options;
    const { sketch, lane, parts, key, cover, outbox } = of;
    this.#of = of;
    this.#name = options.name;
    this.#signal = options.signal;
    this.#epochs = new KernelEpochs(sketch, (set, salt) => {
      for (const { plan } of parts) {
        const places = plan.estimator.kernel?.places?.(plan.parameters, seed, salt);
        if (places) sketch.place(set, places);
      }
    });
    if (cut.mode === "control") throw new Error("control messages are not read in the kernel");
    const full = parts.flatMap(({ part }) => (part.kind === "colate" ? [part.fullAt] : []));
    this.#cutter =
      cut.mode === "aligned"
        ? new KernelCutter(this.#epochs, cut.lengthNs, Math.min(Number.POSITIVE_INFINITY, ...full))
        : new KernelDelimitedCutter(this.#epochs);
    const onRecord: ObserverOptions["onRecord"] = (record, encode) => outbox.put(record, encode);
    const clock = new SystemClock(sketch.datapath.bpf.libc);
    this.observer = new PointObserver({
      ...{ kernels, point, taps, cut, seed, cover, onRecord, cutter: this.#cutter, key: key.text },
      ...{ role: lane.role, segment: lane.segment, filter: lane.filter },
      totals: () => this.#epochs.totals(),
      state: tapState({ clock: () => clock.state() }, outbox),
      wrapTap: (tap, plan) => {
        const own = parts.find((chosen) => chosen.plan === plan);
        if (!own) throw new Error(`no part for ${plan.estimator.name}`);
        return this.#epochs.tap(tap, own.part);
      },
    });
  }

  /** Attaches the program: packets are counted from now on. */
  begin(): Attached {
    this.observer.begin(systemClock());
    return this.#of.sketch.attach();
  }

  free(): void {
    this.observer.free();
    this.#of.sketch.close();
  }

  get memoryBytes(): number {
    return this.observer.memoryBytes + this.#of.sketch.memoryBytes;
  }

  get sketch(): KernelSketch {
    return this.#of.sketch;
  }

  /** Runs until the signal aborts, or until the interface disappears (returns true). The program is detached afterwards. */
  async run(signal: AbortSignal | undefined): Promise<boolean> {
    const { sketch, outbox } = this.#of;
    let lookAt = performance.now() + ALIVE_MS;
    let gone = false;
    while (!signal?.aborted && !gone) {
      await this.#wait();
      this.observer.tick(systemClock());
      if (outbox.needsRoom) await outbox.room();
      if (performance.now() < lookAt) continue;
      lookAt = performance.now() + ALIVE_MS;
      gone = !sketch.alive;
      sketch.lookAtMtu();
    }
    sketch.detach();
    return gone;
  }

  async #wait(): Promise<void> {
    const due = this.#cutter.dueNs;
    const left = due === undefined || due === null ? DELIMITED_WAIT_MS : Number(due - systemClock()) / 1e6;
    const ms = Math.min(MAX_WAIT_MS, Math.max(1, Math.ceil(left)));
    await sleep(ms, undefined, this.#signal ? { signal: this.#signal } : {}).catch(() => {});
  }

  lane(): ObserveResult["lanes"][number] {
    const { segment } = this.#of.lane;
    return { segment, packets: this.#epochs.sums.packets, filtered: this.#epochs.filtered, twoWay: null };
  }

  /** `all`: includes the warnings that are the same for every lane of the interface. */
  warnings(all: boolean): string[] {
    const { missedDelimiters, lost } = this.#epochs.sums;
    const warnings = all ? this.#mergedPackets() : [];
    if (missedDelimiters > 0)
      warnings.push(`${countOf(missedDelimiters, "delimiter")} came too fast after another to cut there`);
    if (lost > 0)
      warnings.push(
        `${this.#name}: ${countOf(lost, "packet")} not counted, because this host was too busy to read sketches in time`,
      );
    return warnings;
  }

  #mergedPackets(): string[] {
    const { merged } = this.#epochs.sums;
    const { mtu, plan } = this.#of.sketch;
    if (merged === 0) return [];
    return [
      `${this.#name}: ${countOf(merged, "packet")} of several merged ones, longer than the link's MTU${mtu === null ? "" : ` of ${mtu}`}: they look different elsewhere; ethtool -K ${this.#name} ${plan.direction === "in" ? "gro off lro off" : "gso off tso off"}`,
    ];
  }

  statistics(): Omit<CaptureStatistics, "partial" | "warnings"> {
    const { frames, skipped, dropped } = this.#epochs.totals();
    const { filtered: _, ...reasons } = skipped as Record<string, number>;
    const { packets, bytes } = this.#epochs.sums;
    const { firstNs, lastNs, filtered } = this.#epochs;
    return {
      ...{ file: this.#name, format: "interface", packets: frames, bytes, skipped: reasons, dropped },
      ...{ ipPackets: packets + filtered, originNs: firstNs, firstNs, lastNs, shorts: [] },
      interfaces: [
        {
          ...{ index: 0, name: this.#name, description: `eBPF at ${this.#of.sketch.plan.place}` },
          ...{ link: 1, snapLength: 0, resolution: "1e-9 s", dropped },
        },
      ],
    };
  }
}

function openText(
  running: readonly Running[],
  { place, mode }: Attached,
  lanes: readonly ChosenLane[],
): string {
  const [sketch] = running.map((own) => own.sketch);
  if (!sketch) throw new Error("no lane to observe");
  const way = sketch.plan.direction === "in" ? "received" : "sent";
  const how = mode === null ? "" : ` (${mode} XDP)`;
  const filtered = lanes.every(({ filter }) => filter === null) ? "" : "; filtered in the kernel";
  const programs = lanes.length === 1 ? "" : `, ${lanes.length} programs`;
  const bytes = running.reduce((n, own) => n + own.sketch.memoryBytes, 0);
  return `${sketch.plan.name}: packets ${way}, in the kernel by eBPF at ${place}${how}${programs}, ${formatBytes(bytes)} of cells for ${countOf(sketch.cpus, "CPU")}${filtered}`;
}
