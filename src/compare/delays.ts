/**
 * Estimators that must know the delay of each packet (MAPLE and others) in `hoptime compare`: once the comparison has settled how to read the captures, AFTER
 * is read again with the delay of each packet, from the exact match with BEFORE and corrected as there, and fed to the receiver's taps. Their payload is then
 * queried for every packet, and the answers are compared with the delays they were given.
 */

import { UsageError } from "../base/errors.ts";
import type { Kernels } from "../base/kernels.ts";
import { entryAt } from "../base/lists.ts";
import { quantileSorted } from "../base/math/regression.ts";
import type { PacketBatch } from "../capture/batch.ts";
import { DEFAULT_SEED } from "../capture/reader.ts";
import { SenderDelays } from "../delays/sender-delays.ts";
import type { PacketStore, SealedEpoch } from "../estimators/estimator.ts";
import { NO_MATCH } from "../estimators/packet-answers.ts";
import { type CompareOptions, DEFAULT_WINDOW_NS, type Reading } from "./compare.ts";
import type { EstimatePlan } from "./estimates.ts";
import { correctionLine } from "./plan.ts";
import { type WayName, WayReader } from "./way-reader.ts";

/** Maximum number of packets queried one by one: the first ones of the capture. */
const MAX_ASKED = 1 << 20;

/** Errors of single packets. */
export interface PacketErrors {
  asked: number;
  answered: number;
  /** estimate - exact| / exact of the answered packets. */
  medianError: number | null;
  p90Error: number | null;
  /** Share of the answered packets whose exact delay is within the stated bounds. */
  withinBounds: number | null;
}

export interface DelaySealed {
  receiver: SealedEpoch;
  packets: PacketErrors | null;
}

/** Throws a UsageError if the captures cannot be read again. */
export function requireFiles(options: CompareOptions, plans: readonly EstimatePlan[]): void {
  if (plans.length === 0 || (options.before !== "-" && options.after !== "-")) return;
  const names = plans.map((p) => `'${p.estimator.name}'`).join(", ");
  throw new UsageError(
    "not-supported",
    `${names}: estimates need to read the captures twice, which is not possible for standard input`,
    "give files",
    { parameter: "estimators", value: plans.map((p) => p.estimator.name) },
  );
}

/** Returns one sealed epoch per plan over all packets of a direction, at the point where they arrive. `startNs`: start of the epoch, ns since 1970. */
export async function sealWithDelays(
  options: CompareOptions,
  reading: Reading,
  way: WayName,
  plans: readonly EstimatePlan[],
  startNs: bigint,
): Promise<DelaySealed[]> {
  if (plans.length === 0) return [];
  const { kernels } = reading;
  const seed = options.seed ?? DEFAULT_SEED;
  const forward = way === "forward";
  const { offsetNs, reverseNs } = correctionLine(reading.plan.correction);
  const delays = new SenderDelays(kernels, {
    files: [forward ? options.before : options.after],
    capture: { cover: reading.plan.cover, inner: options.inner ?? false, nat: options.nat ?? false, seed },
    windowNs: options.windowNs ?? DEFAULT_WINDOW_NS,
    // AFTER's times are corrected when they are read as the receiver's; as the sender's they are read as captured.
    offsetNs: forward ? 0 : reverseNs - (offsetNs + reading.commonNs),
    // The reader returns packets of one direction only.
    minNs: Number.NEGATIVE_INFINITY,
  });
  const reader = await WayReader.open(options, reading, forward ? 1 : 0, way);
  const taps = plans.map(({ estimator, parameters }) =>
    estimator.createTap({ kernels, role: "receiver", seed }, parameters),
  );
  const asked = new AskedPackets();
  let begun = false;
  try {
    while (await reader.next()) {
      const { batch, originNs } = reader;
      await delays.fill(batch, originNs);
      if (!forward) correctSender(batch, originNs, reading);
      asked.note(batch);
      for (const tap of taps) {
        if (!begun) tap.begin(-Number(originNs - startNs), originNs);
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
    reader.free();
  }
}

/** Corrects the drift of AFTER's clock, if AFTER timestamped the sending. */
function correctSender(
  batch: PacketBatch,
  originNs: bigint,
  { plan, originNs: zeroNs, commonNs }: Reading,
): void {
  const { offsetNs, slope, pivotNs, pieces } = correctionLine(plan.correction);
  if (slope === 0 && pieces === null) return;
  const { timeNs, delayNs, count } = batch;
  const atNs = Number(originNs - zeroNs);
  const shiftNs = atNs + offsetNs + commonNs - pivotNs;
  for (let i = 0; i < count; i++) {
    const t = timeNs[i]!;
    // The receiver's clock is BEFORE's, in which the pieces' times are given.
    const setNs = pieces?.list.findLast(({ fromNs }) => fromNs <= t + atNs)?.offsetNs ?? 0;
    delayNs[i] = Math.round(delayNs[i]! + setNs + slope * (t - delayNs[i]! + shiftNs));
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
      const truth = entryAt(this.#delays, b);
      const answers = lookup.lookup("digest", digests, entryAt(this.#sizes, b));
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
