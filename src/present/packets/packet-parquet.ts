/** Writes packets as Parquet in row groups, so that memory does not grow with the file. Loaded only when asked for (docs/decisions/0006-parquet.md). */
import { fileWriter, ParquetWriter } from "hyparquet-writer";
import type { PacketTable } from "../../compare/packets.ts";
import { PACKET_COLUMNS, type PacketColumn, type PacketRow, packetRows } from "./packet-rows.ts";

const ROW_GROUP = 100_000;
type ColumnType = "INT64" | "INT32" | "STRING";
const TYPES: Record<PacketColumn, ColumnType> = {
  // Numbers instead of timestamps: readers whose timestamps have microseconds would lose the nanoseconds.
  sentNs: "INT64",
  receivedNs: "INT64",
  delayNs: "INT64",
  outcome: "STRING",
  direction: "STRING",
  packets: "INT32",
  src: "STRING",
  dst: "STRING",
  proto: "INT32",
  sport: "INT32",
  dport: "INT32",
  dscp: "INT32",
  vlan: "INT32",
};

export async function writePacketParquet(path: string, table: PacketTable): Promise<void> {
  const writer = new ParquetWriter({
    writer: fileWriter(path),
    schema: [{ name: "packets", num_children: PACKET_COLUMNS.length }, ...PACKET_COLUMNS.map(element)],
  });
  let rows: PacketRow[] = [];
  const flush = async () => {
    const columnData = PACKET_COLUMNS.map((name) => ({
      name,
      data: rows.map((row) => cell(name, row[name])),
    }));
    await writer.write({ columnData, rowGroupSize: ROW_GROUP });
    rows = [];
  };
  for (const row of packetRows(table)) {
    rows.push(row);
    if (rows.length === ROW_GROUP) await flush();
  }
  if (rows.length > 0 || table.length === 0) await flush();
  await writer.finish();
}

function element(name: PacketColumn) {
  const type = TYPES[name];
  const common = { name, repetition_type: "OPTIONAL" as const };
  switch (type) {
    case "STRING":
      return { ...common, type: "BYTE_ARRAY" as const, converted_type: "UTF8" as const };
    case "INT32":
      return { ...common, type: "INT32" as const };
    case "INT64":
      return { ...common, type: "INT64" as const };
  }
}

function cell(name: PacketColumn, value: PacketRow[PacketColumn]): PacketRow[PacketColumn] {
  return TYPES[name] === "INT64" && typeof value === "number" ? BigInt(value) : value;
}
