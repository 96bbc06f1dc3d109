/**
 * Which stamps of a capture tell its time. A few that lie far from all around them (a corrupted second, a clock that blinked) must not be taken for
 * the time it is: whoever reads two captures side by side would wait for the other one to come there. Each row is given a time that can be
 * believed, its own or, where it strays, that of the rows before it.
 *
 * A row that jumps by more than the tolerance strays if a good part of the next rows (LOOK) are back where the time was; if not, the clock was set,
 * or it was quiet. Near the end of a batch, where too few rows follow, it is left open (`held`): the rows keep the time before until
 * so many have followed, which delays that time by LOOK rows at most. Told too low a time costs a reader nothing, too high a time everything.
 *
 * Batches without a jump back and without a gap at their end are not looked at row by row. Limits: more than about 700 strays in a row are a step; strays within the
 * tolerance are believed; at the very start and end of a capture silence and a stray are the same thing: less than a day is silence.
 */

/** Rows that are asked whether one strays. */
export const LOOK = 1024;
/** Of those that are asked, so many at most. */
const ASKED = 128;
/** At least this share of them says so. */
const STRAY_SHARE = 1 / 4;
const DAY_NS = 86_400e9;

/** Stamps that stray. */
export interface StrayReport {
  count: number;
  /** By how much at most, from the rows before; 0: none. */
  aheadNs: number;
  behindNs: number;
  /** The clock was set back by so much at most; 0: it was not. */
  setBackNs: number;
  /** The latest time that can be believed, as the stamps are told; null without rows. */
  lastNs: number | null;
}

export class StampTrust {
  readonly #toleranceNs: number;
  /** The latest believed stamp. */
  #latest = Number.NEGATIVE_INFINITY;
  /** Rows believed since the start or the last step back. */
  #age = 0;
  /** Rows at the end that are left open, of those that are behind, and the latest stamp of all. */
  #held = 0;
  #heldBehind = 0;
  #heldLatest = Number.NEGATIVE_INFINITY;
  #strays = { count: 0, aheadNs: 0, behindNs: 0, setBackNs: 0 };
  #room = new Float64Array(0);
  /** Of the last batch: a believed time for each row; null where all are as stamped. */
  believed: Float64Array | null = null;

  /** Stamps that go back by up to so much are taken as they are. */
  constructor(toleranceNs: number) {
    this.#toleranceNs = toleranceNs;
  }

  /** The next n rows of the file. `backNs`: by how much any of their stamps is behind the one before it at most. */
  observe(timeNs: Float64Array, n: number, backNs: number): void {
    this.believed = null;
    if (n === 0) return;
    if (
      this.#held > 0 ||
      backNs > this.#toleranceNs ||
      this.#endsWithGap(timeNs, n) ||
      this.#startsLate(timeNs, n)
    ) {
      this.#judge(timeNs, n);
      return;
    }
    this.#latest = Math.max(this.#latest, timeNs[n - 1]!);
    this.#age += n;
  }

  report(): StrayReport {
    const strays = this.#strays;
    const latest = this.#latest;
    if (latest === Number.NEGATIVE_INFINITY) return { ...strays, lastNs: null };
    // Rows left open at the end of the capture.
    const jumpNs = this.#held > 0 ? this.#heldLatest - latest : 0;
    if (jumpNs >= 0 && jumpNs <= DAY_NS) return { ...strays, lastNs: latest + jumpNs };
    return {
      ...strays,
      count: strays.count + this.#held,
      aheadNs: Math.max(strays.aheadNs, jumpNs),
      behindNs: Math.max(strays.behindNs, -jumpNs),
      lastNs: latest,
    };
  }

  /** The last rows hold a jump ahead that too few rows follow. */
  #endsWithGap(timeNs: Float64Array, n: number): boolean {
    const from = Math.max(0, n - LOOK);
    let previous = from > 0 ? timeNs[from - 1]! : this.#latest;
    if (timeNs[n - 1]! - previous <= this.#toleranceNs) return false;
    for (let i = from; i < n; i++) {
      const time = timeNs[i]!;
      if (time - previous > this.#toleranceNs) return true;
      previous = time;
    }
    return false;
  }

  /** The first rows of all are days before what follows. */
  #startsLate(timeNs: Float64Array, n: number): boolean {
    return this.#age === 0 && timeNs[Math.min(n, LOOK) - 1]! - timeNs[0]! > DAY_NS;
  }

  #judge(timeNs: Float64Array, n: number): void {
    const tolerance = this.#toleranceNs;
    if (this.#room.length < n) this.#room = new Float64Array(n);
    const believed = this.#room;
    this.believed = believed;
    let first = 0;
    for (let i = 0; i < n; i++) {
      const time = timeNs[i]!;
      if (this.#age === 0) {
        if (straysFirst(timeNs, i, n, tolerance)) {
          this.#strays.count++;
          first = i + 1;
          continue;
        }
        believed.fill(time, 0, first);
        for (let k = 0; k < first; k++) this.#measure(timeNs[k]! - time);
        this.#believe(time);
      } else if (Math.abs(time - this.#latest) <= tolerance) {
        this.#strays.count += this.#held;
        if (this.#held > 0) this.#measure(this.#heldLatest - this.#latest);
        this.#believe(Math.max(time, this.#latest));
        believed[i] = time;
        continue;
      } else if (time > this.#latest) this.#ahead(timeNs, i, n);
      else this.#behind(timeNs, i, n);
      believed[i] = this.#latest;
    }
  }

  #ahead(timeNs: Float64Array, i: number, n: number): void {
    const time = timeNs[i]!;
    const tolerance = this.#toleranceNs;
    if (shareWithin(timeNs, i, n, this.#latest - tolerance, time - tolerance) >= STRAY_SHARE)
      this.#stray(time);
    else if (n - 1 - i >= LOOK || this.#held >= LOOK) this.#believe(time);
    else this.#hold(time);
  }

  #behind(timeNs: Float64Array, i: number, n: number): void {
    const time = timeNs[i]!;
    const enough = Math.min(LOOK, this.#age + this.#held - this.#heldBehind);
    if (shareWithin(timeNs, i, n, this.#latest - this.#toleranceNs, Number.POSITIVE_INFINITY) >= STRAY_SHARE)
      this.#stray(time);
    else if (n - 1 - i >= LOOK || this.#heldBehind + 1 >= enough) {
      this.#strays.setBackNs = Math.max(this.#strays.setBackNs, this.#latest - time);
      this.#age = 0;
      this.#believe(time);
    } else {
      this.#hold(time);
      this.#heldBehind++;
    }
  }

  #believe(time: number): void {
    this.#latest = time;
    this.#age++;
    this.#held = 0;
    this.#heldBehind = 0;
    this.#heldLatest = Number.NEGATIVE_INFINITY;
  }

  #hold(time: number): void {
    this.#held++;
    this.#heldLatest = Math.max(this.#heldLatest, time);
  }

  #stray(time: number): void {
    this.#strays.count++;
    this.#measure(time - this.#latest);
  }

  #measure(apartNs: number): void {
    this.#strays.aheadNs = Math.max(this.#strays.aheadNs, apartNs);
    this.#strays.behindNs = Math.max(this.#strays.behindNs, -apartNs);
  }
}

/** Row i, before which there is none to believe, is later than the next rows, or days earlier. */
function straysFirst(timeNs: Float64Array, i: number, n: number, toleranceNs: number): boolean {
  const time = timeNs[i]!;
  return (
    shareWithin(timeNs, i, n, Number.NEGATIVE_INFINITY, time - toleranceNs) > 1 / 2 ||
    shareWithin(timeNs, i, n, time + DAY_NS, Number.POSITIVE_INFINITY) > 1 / 2
  );
}

/** Of the rows after row i, the share with stamps from `fromNs` to below `toNs`; 0 where none follow. */
function shareWithin(timeNs: Float64Array, i: number, n: number, fromNs: number, toNs: number): number {
  const end = Math.min(n, i + 1 + LOOK);
  const step = Math.max(1, Math.floor((end - i - 1) / ASKED));
  let asked = 0;
  let within = 0;
  for (let k = i + 1; k < end; k += step) {
    asked++;
    if (timeNs[k]! >= fromNs && timeNs[k]! < toNs) within++;
  }
  return asked === 0 ? 0 : within / asked;
}
