/**
 * Count, mean, sum of squared deviations, minimum and maximum, in one pass and mergeable (Welford; Chan et al. 1979).
 *
 * Values are taken relative to the first one: differences of integers below 2^53 are exact, so the error depends on the spread of the values and not on their
 * offset (nanoseconds of a day with a spread of a microsecond lose nothing). A statistic without enough values (none, or one for the sample deviation) is null,
 * never 0 or NaN.
 */
export class Moments {
  count = 0;
  /** Sum of squared deviations from the mean. */
  m2 = 0;
  #origin = 0;
  // Mean relative to #origin.
  #shifted = 0;
  #min = Infinity;
  #max = -Infinity;

  /** Returns moments with these values, as stored in a record, ready to be merged. */
  static of(parts: { count: number; mean: number; m2: number; min: number; max: number }): Moments {
    const moments = new Moments();
    if (parts.count === 0) return moments;
    moments.count = parts.count;
    moments.m2 = parts.m2;
    moments.#origin = parts.mean;
    moments.#min = parts.min;
    moments.#max = parts.max;
    return moments;
  }

  get mean(): number | null {
    return this.count === 0 ? null : this.#origin + this.#shifted;
  }

  get min(): number | null {
    return this.count === 0 ? null : this.#min;
  }

  get max(): number | null {
    return this.count === 0 ? null : this.#max;
  }

  /** Standard deviation of the population: divided by n. */
  get stdev(): number | null {
    return this.count === 0 ? null : Math.sqrt(this.m2 / this.count);
  }

  /** Standard deviation of the sample: divided by n - 1. */
  get sampleStdev(): number | null {
    return this.count < 2 ? null : Math.sqrt(this.m2 / (this.count - 1));
  }

  add(value: number): void {
    if (this.count === 0) this.#origin = value;
    this.count++;
    const x = value - this.#origin;
    const delta = x - this.#shifted;
    this.#shifted += delta / this.count;
    this.m2 += delta * (x - this.#shifted);
    if (value < this.#min) this.#min = value;
    if (value > this.#max) this.#max = value;
  }

  merge(other: Moments): void {
    if (other.count === 0) return;
    if (this.count === 0) {
      this.count = other.count;
      this.m2 = other.m2;
      this.#origin = other.#origin;
      this.#shifted = other.#shifted;
      this.#min = other.#min;
      this.#max = other.#max;
      return;
    }
    const total = this.count + other.count;
    const delta = other.#origin - this.#origin + (other.#shifted - this.#shifted);
    this.m2 += other.m2 + delta * delta * ((this.count / total) * other.count);
    this.#shifted += delta * (other.count / total);
    this.count = total;
    if (other.#min < this.#min) this.#min = other.#min;
    if (other.#max > this.#max) this.#max = other.#max;
  }
}
