/**
 * Feeds an envelope from points in kernel memory (kernels/match/thin.ts): of the many points of a large capture, only the minimum of each short block reaches
 * it. A capture with fewer than WHOLE points is used completely.
 */
import { envelopeBucketsConstants } from "../base/kernel-layout.ts";
import type { Kernels } from "../base/kernels.ts";
import type { Envelope } from "./envelope.ts";

/** Many times as many as an envelope has buckets. */
const WHOLE = 1 << 15;
const POINT_BYTES = 24;
const FIELDS = 8;

export class ThinnedEnvelope {
  readonly #kernels: Kernels;
  readonly #envelope: Envelope;
  readonly #sign: 1 | -1;
  readonly #thin: number;
  readonly #out: number;
  /** The envelope's buckets while it is being fed. */
  readonly #buckets: number;

  /** `rows`: maximum number of points per call. `sign` -1: the upper envelope of the values, as the lower one of their negatives. */
  constructor(kernels: Kernels, envelope: Envelope, sign: 1 | -1, rows: number) {
    this.#kernels = kernels;
    this.#envelope = envelope;
    this.#sign = sign;
    this.#thin = kernels.call.thinNew() >>> 0;
    this.#out = kernels.alloc((rows + 1) * POINT_BYTES);
    this.#buckets = kernels.alloc(envelopeBucketsConstants.BUCKETS_BYTES);
    envelope.giveBuckets(kernels.f64, this.#buckets >>> 3);
  }

  /** Adds n points, all finite; `times` and `values` are addresses. */
  take(times: number, values: number, n: number): void {
    if (n === 0) return;
    this.#give(this.#kernels.call.thinTake(this.#thin, times, values, n, this.#sign, WHOLE, this.#out));
  }

  /** Ends the input: passes the rest to the envelope. */
  finish(): void {
    const kernels = this.#kernels;
    this.#give(kernels.call.thinGive(this.#thin, this.#out));
    this.#envelope.takeBuckets(kernels.f64, this.#buckets >>> 3);
    const at = this.#thin >>> 3;
    const [packets, sumNs, baseNs, minNs, maxNs, firstNs, lastNs, negative] = kernels.f64.slice(
      at,
      at + FIELDS,
    ) as unknown as [number, number, number, number, number, number, number, number];
    this.#envelope.account({ packets, sumNs, baseNs, minNs, maxNs, firstNs, lastNs, negative });
    kernels.free(this.#thin);
    kernels.free(this.#out);
    kernels.free(this.#buckets);
  }

  #give(count: number): void {
    const { call } = this.#kernels;
    const at = this.#buckets >>> 3;
    for (let given = 0; ; ) {
      given += call.envelopeAdd(this.#buckets, this.#out + given * POINT_BYTES, count - given) >>> 0;
      if (given === count) return;
      const { f64 } = this.#kernels;
      this.#envelope.takeBuckets(f64, at);
      this.#envelope.makeBucket(f64[(this.#out + given * POINT_BYTES) >>> 3]!);
      this.#envelope.giveBuckets(f64, at);
    }
  }
}
