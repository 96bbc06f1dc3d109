/** Incidents and alerts in ClickHouse: of each id, the row written last counts. */
import { CLICKHOUSE } from "../dialect.ts";
import { type Happening, type HappeningKind, HappeningTable } from "../happenings.ts";
import type { ClickhouseHttp } from "./http.ts";
import { RowBinary } from "./row-binary.ts";
import type { Place } from "./schema.ts";

export class ClickhouseHappenings extends HappeningTable {
  readonly #name: HappeningKind;
  readonly #http: ClickhouseHttp;
  readonly #place: Place;

  constructor(name: HappeningKind, http: ClickhouseHttp, place: Place) {
    super(name, { all: http.all, dialect: CLICKHOUSE });
    this.#name = name;
    this.#http = http;
    this.#place = place;
  }

  async write({ id, startNs, closedNs, body }: Happening): Promise<void> {
    const out = new RowBinary().text(id).int64(startNs);
    if (closedNs === null) out.uint8(1);
    else out.uint8(0).int64(closedNs);
    out.text(body);
    await this.#http.insert(this.#name, ["id", "opened_ns", "closed_ns", "body"], out.bytes);
  }

  async retain(beforeNs: bigint): Promise<void> {
    const old = `${CLICKHOUSE.from(this.#name)} AND closed_ns < $1`;
    const [row] = await this.#http.all(`SELECT count(*) ${old}`, [beforeNs]);
    if (Number(row?.[0] ?? 0) === 0) return;
    const table = `${this.#place.local(this.#name)}${this.#place.everywhere}`;
    // Deletes by id: an older row of one that is still open may look closed.
    await this.#http.run(`ALTER TABLE ${table} DELETE WHERE id IN (SELECT id ${old})`, [beforeNs]);
  }
}
