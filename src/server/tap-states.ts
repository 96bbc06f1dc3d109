/** What is known of each tap: when it was heard of, what its last records said, what it says of itself. Bounded, whatever names come. */
import Type from "typebox";
import { Check } from "typebox/schema";
import type { RecordHead } from "../epoch/record.ts";

export interface TapState {
  /** When its last message came, ms since 1970. */
  heardMs: number;
  /** End of its newest epoch, ns since 1970. */
  lastEndNs: string;
  program: string;
  records: number;
  packets: number;
  /** Packets that its capture dropped, where it says. */
  dropped: number | null;
  /** Its own report: what waits in its spool, what it had to give up. */
  spool: SpoolReport | null;
}

const SPOOL = Type.Object({
  hoptime: Type.String({ maxLength: 40 }),
  waiting: Type.Integer({ minimum: 0 }),
  waitingBytes: Type.Integer({ minimum: 0 }),
  dropped: Type.Integer({ minimum: 0 }),
  refused: Type.Integer({ minimum: 0 }),
});
export interface SpoolReport {
  hoptime: string;
  waiting: number;
  waitingBytes: number;
  dropped: number;
  refused: number;
}

const MAX_TAPS = 10_000;
const MAX_REPORT = 1000;

export class TapStates {
  readonly #taps = new Map<string, TapState>();

  take(heads: readonly RecordHead[], report: string | null, nowMs = Date.now()): void {
    const spool = readReport(report);
    for (const { point, epoch, program, counters } of heads) {
      const known = this.#taps.get(point);
      if (!known && this.#taps.size >= MAX_TAPS) continue;
      const before = known ?? { lastEndNs: "0", records: 0, packets: 0, dropped: null };
      const newer = epoch.endNs > BigInt(before.lastEndNs);
      this.#taps.set(point, {
        heardMs: nowMs,
        lastEndNs: newer ? `${epoch.endNs}` : before.lastEndNs,
        program,
        records: before.records + 1,
        packets: before.packets + counters.packets,
        dropped: counters.dropped === null ? before.dropped : (before.dropped ?? 0) + counters.dropped,
        spool: spool ?? known?.spool ?? null,
      });
    }
  }

  of(point: string): TapState | null {
    return this.#taps.get(point) ?? null;
  }

  all(): Record<string, TapState> {
    return Object.fromEntries(this.#taps);
  }
}

/** Null where it is not what a tap would say. */
function readReport(text: string | null): SpoolReport | null {
  if (text === null || text.length > MAX_REPORT) return null;
  try {
    const value: unknown = JSON.parse(text);
    return Check(SPOOL, value) ? (value as SpoolReport) : null;
  } catch {
    return null;
  }
}
