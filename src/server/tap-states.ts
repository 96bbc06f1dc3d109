/**
 * State of each tap: when it was last heard from, what its last records contained, and what it reports about itself. The number of taps is bounded.
 */
import Type from "typebox";
import { Check } from "typebox/schema";
import { remembered } from "../base/remembered.ts";
import { later } from "../base/time.ts";
import type { ClockState } from "../capture/source/clock-state.ts";
import type { RecordHead } from "../epoch/record.ts";

export interface TapState {
  /** When its last message arrived, ms since 1970. */
  heardMs: number;
  /** End of its newest epoch, ns since 1970. */
  lastEndNs: string;
  program: string;
  records: number;
  /** Packets observed, each counted once however many estimators processed it. */
  packets: number;
  /** Packet rate in its newest epochs. */
  packetsPerSecond: number | null;
  /** Packets dropped by its capture, if it reports them. */
  dropped: number | null;
  /** The clock that timestamped its newest live epoch; null if its records do not name it. */
  clock: TapClock | null;
  /** Share of one CPU used for observing in its newest live epoch. */
  cpuShare: number | null;
  /** Records waiting to be stored or sent when its newest live epoch was sealed. */
  queue: number | null;
  /** The tap's own report: what waits in its spool and what it had to drop. */
  spool: SpoolReport | null;
}

export type TapClock = Omit<ClockState, "id">;

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

/** The estimator whose records count the packets of a label: the records of all estimators of an epoch count the same packets. */
interface Counting {
  estimator: string;
  endNs: bigint;
  perSecond: number;
}
/**
 * Another estimator takes over the counting when the first has been silent for this many of its epochs. A label without records for a minute is not
 * part of the current packet rate.
 */
const SILENT_EPOCHS = 10n;
const PRESENT_NS = 60_000_000_000n;

export class TapStates {
  readonly #taps = new Map<string, TapState>();
  readonly #counting = new Map<string, Map<string, Counting>>();

  take(heads: readonly RecordHead[], report: string | null, nowMs = Date.now()): void {
    const spool = readReport(report);
    for (const head of heads) {
      const { point, epoch, program, counters, clock, effort } = head;
      const known = this.#taps.get(point);
      if (!known && this.#taps.size >= MAX_TAPS) continue;
      const before = known ?? NOT_HEARD;
      const newer = epoch.endNs > BigInt(before.lastEndNs);
      const counts = this.#counts(head);
      this.#taps.set(point, {
        heardMs: nowMs,
        lastEndNs: newer ? `${epoch.endNs}` : before.lastEndNs,
        program,
        records: before.records + 1,
        packets: before.packets + (counts ? counters.packets : 0),
        packetsPerSecond: counts ? this.#perSecond(point) : before.packetsPerSecond,
        dropped:
          counters.dropped === null
            ? before.dropped
            : (before.dropped ?? 0) + (counts ? counters.dropped : 0),
        clock: newer && clock ? clockOf(clock) : before.clock,
        cpuShare: newer && effort ? shareOf(effort.cpuNs, epoch) : before.cpuShare,
        queue: newer && effort ? effort.queue : before.queue,
        spool: spool ?? known?.spool ?? null,
      });
    }
  }

  /** Whether this record's packets are counted, rather than those of another estimator's record. */
  #counts({ point, segment, estimator, epoch, counters }: RecordHead): boolean {
    const labels = this.#counting.get(point) ?? new Map<string, Counting>();
    this.#counting.set(point, labels);
    const known = labels.get(segment);
    if (!known && labels.size >= MAX_TAPS) return false;
    const lengthNs = epoch.endNs - epoch.startNs;
    const own = !known || known.estimator === estimator;
    if (!own && epoch.startNs < known.endNs + SILENT_EPOCHS * lengthNs) return false;
    if (!known || epoch.endNs >= known.endNs) {
      const perSecond = lengthNs > 0n ? (1e9 * counters.packets) / Number(lengthNs) : 0;
      labels.set(segment, { estimator, endNs: epoch.endNs, perSecond });
    }
    return true;
  }

  /** Current packet rate over all labels that have recent records. */
  #perSecond(point: string): number {
    const all = [...(this.#counting.get(point)?.values() ?? [])];
    const newestNs = all.map((c) => c.endNs).reduce(later, 0n);
    const present = all.filter((c) => newestNs - c.endNs <= PRESENT_NS);
    return present.reduce((sum, c) => sum + c.perSecond, 0);
  }

  of(point: string): TapState | null {
    return this.#taps.get(point) ?? null;
  }

  all(): Record<string, TapState> {
    return Object.fromEntries(this.#taps);
  }
}

const NOT_HEARD = {
  ...{ lastEndNs: "0", records: 0, packets: 0, packetsPerSecond: null, dropped: null },
  ...{ clock: null, cpuShare: null, queue: null },
};

const clockOf = ({ synchronised, discipline, estimatedErrorNs, maximumErrorNs }: ClockState): TapClock => ({
  ...{ synchronised, discipline, estimatedErrorNs, maximumErrorNs },
});

function shareOf(cpuNs: number, { startNs, endNs }: RecordHead["epoch"]): number | null {
  const lengthNs = Number(endNs - startNs);
  return lengthNs > 0 ? cpuNs / lengthNs : null;
}

/** Returns null if the text is not a valid tap report. */
function readReport(text: string | null): SpoolReport | null {
  return text === null || text.length > MAX_REPORT ? null : parseReport(text);
}

/** Cached, because idle taps send the same report with every record. */
const parseReport = remembered(MAX_TAPS, (text): SpoolReport | null => {
  try {
    const value: unknown = JSON.parse(text);
    return Check(SPOOL, value) ? (value as SpoolReport) : null;
  } catch {
    return null;
  }
});
