/**
 * Estimators that must know the delay of each packet (MAPLE and others) in `hoptime compare`: once the comparison knows how the captures are to be
 * read, AFTER is read again with the delay of each packet beside it, from the exact match with BEFORE and corrected as there, and goes through the
 * receiver's taps. What they kept is asked for every packet, and held against the delays they were given.
 */
import { UsageError } from "../base/errors.ts";
import { Kernels } from "../base/kernels.ts";
import { quantileSorted } from "../base/math/regression.ts";
import type { PacketBatch } from "../capture/batch.ts";
import { compileFilter } from "../capture/filter/filter.ts";
import { FlowKeySpec } from "../capture/flow/flow-key.ts";
import { CaptureReader } from "../capture/reader.ts";
import { SenderDelays } from "../delays/sender-delays.ts";
import type { PacketStore, SealedEpoch } from "../estimators/estimator.ts";
import { NO_MATCH } from "../estimators/packet-answers.ts";
import { type CompareOptions, DEFAULT_WINDOW_NS } from "./compare.ts";
import type { EstimatePlan } from "./estimates.ts";
import { correctionLine, type PassPlan, splitNs } from "./plan.ts";

/** Packets that are asked for one by one: the first so many of the capture. */
const MAX_ASKED = 1 << 20;

const MARGIN_NS = 1e9;

/** Errors of single packets. */
export interface PacketErrors {
  asked: number;
  answered: number;
  /** |estimate - exact| / exact over the answered ones. */
  medianError: number | null;
  p90Error: number | null;
  /** Share of the answered ones whose exact delay lies within the told bounds. */
  withinBounds: number | null;
}

export interface DelaySealed {
  receiver: SealedEpoch;
  packets: PacketErrors | null;
}

export interface PassClock {
  plan: PassPlan;
  /** ns since 1970 of time 0 of the correction's axis. */
  startNs: bigint;
  seed: bigint;
}

/** UsageError where the captures cannot be read again. */
export function requireFiles(options: CompareOptions, plans: readonly EstimatePlan[]): void {
  if (plans.length === 0 || (options.before !== "-" && options.after !== "-")) return;
  const names = plans.map((p) => `'${p.estimator.name}'`).join(", ");
  throw new UsageError(
    "not-supported",
    `${names} must know the delay of each packet: the captures are read twice, which standard input cannot be`,
    "give files",
    { parameter: "estimators", value: plans.map((p) => p.estimator.name) },
  );
}

/** One sealed epoch over the whole of AFTER per plan. */
export async function sealWithDelays(
  options: CompareOptions,
  plans: readonly EstimatePlan[],
  clock: PassClock,
): Promise<DelaySealed[]> {
  if (plans.length === 0) return [];
  const { plan, seed } = clock;
  const kernels = new Kernels();
  const capture = { cover: plan.cover, inner: options.inner ?? false, seed };
  const filter = options.filter === undefined ? undefined : compileFilter(options.filter, kernels);
  // What is known of the clocks is known to a fraction of a second: partners are looked for a little early, so that none is "sent" after it arrived.
  const line = correctionLine(plan.correction);
  const apartNs = line.offsetNs === 0 ? plan.alignNs : line.offsetNs;
  const marginNs = apartNs === 0 && splitNs(plan.ways) >= 0 ? 0 : MARGIN_NS;
  const searchNs = apartNs - marginNs;
  const delays = new SenderDelays(kernels, {
    files: [options.before],
    capture,
    windowNs: (options.windowNs ?? DEFAULT_WINDOW_NS) + marginNs,
    offsetNs: searchNs,
    minNs: splitNs(plan.ways) + plan.alignNs - searchNs,
  });
  const key = FlowKeySpec.parse(options.key);
  const reader = await CaptureReader.open(kernels, options.after, { ...capture, key, filter });
  const taps = plans.map(({ estimator, parameters }) =>
    estimator.createTap({ kernels, role: "receiver", seed }, parameters),
  );
  const asked = new AskedPackets();
  let begun = false;
  try {
    while (await reader.next()) {
      const { batch } = reader;
      const originNs = reader.originNs!;
      await delays.fill(batch, originNs);
      correct(batch, Number(originNs - clock.startNs), plan, searchNs);
      asked.note(batch);
      for (const tap of taps) {
        if (!begun) tap.begin(-Number(originNs - clock.startNs), originNs);
        tap.update(batch, 0, batch.count);
      }
      begun = true;
    }
    return taps.map((tap, i) => {
      const receiver = tap.seal();
      const store = plans[i]?.estimator.packets;
      return { receiver, packets: store ? asked.ask(kernels, receiver, store) : null };
    });
  } finally {
    for (const tap of taps) tap.free();
    delays.free();
    reader.close();
    reader.free();
    filter?.free();
  }
}

/** Delays as the exact match reports them. */
function correct(batch: PacketBatch, shiftNs: number, plan: PassPlan, searchNs: number): void {
  const { offsetNs, slope, pivotNs } = correctionLine(plan.correction);
  if (searchNs === offsetNs && slope === 0) return;
  const { timeNs, delayNs, count } = batch;
  for (let i = 0; i < count; i++) {
    const at = timeNs[i]! + shiftNs - plan.alignNs;
    delayNs[i] = Math.round(delayNs[i]! + searchNs - offsetNs - slope * (at - pivotNs));
  }
}

class AskedPackets {
  readonly #digests: BigUint64Array[] = [];
  readonly #delays: Float64Array[] = [];
  readonly #sizes: Uint32Array[] = [];
  #count = 0;

  note(batch: PacketBatch): void {
    const n = Math.min(batch.count, MAX_ASKED - this.#count);
    if (n <= 0) return;
    const at = batch.column("digest") >>> 3;
    this.#digests.push(batch.kernels.u64.slice(at, at + n));
    this.#delays.push(batch.delayNs.slice(0, n));
    this.#sizes.push(batch.wireLength.slice(0, n));
    this.#count += n;
  }

  ask(kernels: Kernels, { payload }: SealedEpoch, store: PacketStore): PacketErrors | null {
    const read = (offset: number, length: number) => payload.subarray(offset, offset + length);
    const lookup = store.open(kernels, read, payload.length);
    if (!lookup.has("digest")) {
      lookup.free();
      return null;
    }
    const errors: number[] = [];
    let [asked, answered, within] = [0, 0, 0];
    for (const [b, digests] of this.#digests.entries()) {
      const truth = this.#delays[b]!;
      const answers = lookup.lookup("digest", digests, this.#sizes[b]!);
      for (let i = 0; i < digests.length; i++) {
        if (Number.isNaN(truth[i]!)) continue;
        asked++;
        if (answers.kind[i] === NO_MATCH) continue;
        answered++;
        if (answers.lowNs[i]! <= truth[i]! && truth[i]! <= answers.highNs[i]!) within++;
        if (truth[i] !== 0) errors.push(Math.abs((answers.valueNs[i]! - truth[i]!) / truth[i]!));
      }
    }
    lookup.free();
    const sorted = Float64Array.from(errors).sort();
    return {
      asked,
      answered,
      medianError: quantileSorted(sorted, 0.5),
      p90Error: quantileSorted(sorted, 0.9),
      withinBounds: answered > 0 ? within / answered : null,
    };
  }
}
