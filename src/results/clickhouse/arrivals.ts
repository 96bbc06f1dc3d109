/** Arrivals in ClickHouse: one row per point, minute and writer with the writer's totals so far, so that a row written twice counts once. */
import { randomBytes } from "node:crypto";
import { ArrivalsTable, COUNTS, type MinuteArrivals } from "../arrivals-table.ts";
import { CLICKHOUSE } from "../dialect.ts";
import type { ClickhouseHttp } from "./http.ts";
import { RowBinary } from "./row-binary.ts";
import type { Place } from "./schema.ts";

/** Most totals kept in memory; beyond that the writer continues under a new name. */
const MAX_KNOWN = 50_000;
const PARTITION_NS = 2_592_000_000_000_000n;

export class ClickhouseArrivals extends ArrivalsTable {
  readonly #http: ClickhouseHttp;
  readonly #place: Place;
  #writer = newWriter();
  #sequence = 0n;
  #sums = new Map<string, MinuteArrivals>();
  readonly #unwritten = new Set<string>();

  constructor(http: ClickhouseHttp, place: Place) {
    super({ all: http.all, dialect: CLICKHOUSE });
    this.#http = http;
    this.#place = place;
  }

  protected async add(arrivals: readonly MinuteArrivals[]): Promise<void> {
    for (const { key, counts } of arrivals) {
      const name = key.join("\n");
      const known = this.#sums.get(name);
      if (known) for (const count of COUNTS) known.counts[count] += counts[count];
      else this.#sums.set(name, { key, counts: { ...counts } });
      this.#unwritten.add(name);
    }
    if (this.#unwritten.size === 0) return;
    const names = [...this.#unwritten];
    const out = new RowBinary();
    this.#sequence++;
    for (const name of names) {
      const sum = this.#sums.get(name);
      if (!sum) continue;
      const [point, label, estimator, minuteNs] = sum.key;
      out.text(point).text(label).text(estimator).int64(minuteNs).text(this.#writer).uint64(this.#sequence);
      for (const count of COUNTS) out.double(sum.counts[count]);
    }
    const columns = ["point", "label", "estimator", "minute_ns", "writer", "seq", ...COUNTS];
    await this.#http.insert("arrivals", columns, out.bytes);
    for (const name of names) this.#unwritten.delete(name);
    if (this.#sums.size <= MAX_KNOWN || this.#unwritten.size > 0) return;
    this.#sums = new Map();
    this.#writer = newWriter();
  }

  async tidy(beforeNs: bigint): Promise<void> {
    const parts = await this.#http.all(`SELECT DISTINCT partition_id ${this.#place.parts("arrivals")}`);
    for (const [id] of parts)
      if ((BigInt(String(id)) + 1n) * PARTITION_NS <= beforeNs)
        await this.#http.run(
          `ALTER TABLE ${this.#place.local("arrivals")}${this.#place.everywhere} DROP PARTITION ID '${id}'`,
        );
  }
}

function newWriter(): string {
  return randomBytes(6).toString("hex");
}
