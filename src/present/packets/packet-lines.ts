/** Writes packets as lines of CSV or JSON. */
import type { PacketTable } from "../../compare/packets.ts";
import { csvCell } from "../csv/compare-csv.ts";
import { PACKET_COLUMNS, packetRows } from "./packet-rows.ts";

export function* packetCsvLines(table: PacketTable): Generator<string> {
  yield `${PACKET_COLUMNS.join(",")}\n`;
  for (const row of packetRows(table)) {
    const cells = PACKET_COLUMNS.map((name) => {
      const value = row[name];
      return typeof value === "string" ? csvCell(value) : (value ?? "");
    });
    yield `${cells.join(",")}\n`;
  }
}

/** Times are strings, as everywhere in this program's JSON, because a double cannot hold them. */
export function* packetJsonLines(table: PacketTable): Generator<string> {
  for (const row of packetRows(table))
    yield `${JSON.stringify(row, (_, value) => (typeof value === "bigint" ? value.toString() : value))}\n`;
}
