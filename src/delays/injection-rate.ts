/**
 * Injection rate of reference packets: RLI section III-B1, algorithm 1.
 *
 *   u_instant = c_b * 8 / d_rp / l_c            (c_b counts bytes; l_c is the drain rate in bit/s)
 *   u_est     = alpha * u_instant + (1 - alpha) * u_est
 *   u_eff     = u_est bounded to [u_min, u_max]
 *   r_eff     = sqrt(1 - ((u_eff - u_min)/(u_max - u_min))^2) * (r_max - r_min) + r_min
 *
 * The paper does not state alpha; 0.01 was measured to do better than 0.1.
 */
export interface AdaptiveSettings {
  minUtilisation: number;
  maxUtilisation: number;
  minRate: number;
  maxRate: number;
  smoothing: number;
}

/** From the paper's evaluation: 1-in-10 up to 60 % utilisation, 1-in-300 from 85 % on. */
export const ADAPTIVE_DEFAULTS: AdaptiveSettings = {
  minUtilisation: 0.6,
  maxUtilisation: 0.85,
  minRate: 1 / 300,
  maxRate: 1 / 10,
  smoothing: 0.01,
};

/** Returns the share of packets to be references at a utilisation. */
export function injectionRate(utilisation: number, s: AdaptiveSettings = ADAPTIVE_DEFAULTS): number {
  const bounded = Math.min(s.maxUtilisation, Math.max(s.minUtilisation, utilisation));
  const x = (bounded - s.minUtilisation) / (s.maxUtilisation - s.minUtilisation);
  return Math.sqrt(1 - x * x) * (s.maxRate - s.minRate) + s.minRate;
}

/** Tracks utilisation between references and sets the rate for the next one. */
export class AdaptiveRate {
  readonly #settings: AdaptiveSettings;
  readonly #drainBps: number;
  #utilisation: number | null = null;

  constructor(drainBps: number, settings: AdaptiveSettings = ADAPTIVE_DEFAULTS) {
    this.#drainBps = drainBps;
    this.#settings = settings;
  }

  get utilisation(): number {
    return this.#utilisation ?? 0;
  }

  /** Call after each reference: bytes and time since the previous one. */
  update(bytes: number, elapsedNs: number): number {
    if (elapsedNs > 0) {
      const instant = (bytes * 8e9) / elapsedNs / this.#drainBps;
      const { smoothing } = this.#settings;
      this.#utilisation =
        this.#utilisation === null ? instant : smoothing * instant + (1 - smoothing) * this.#utilisation;
    }
    return injectionRate(this.utilisation, this.#settings);
  }
}
