/** `--packets FILE`: every packet, in the format that the name ends with. */
import { closeSync, openSync, writeFileSync } from "node:fs";
import { invalidValue, UsageError } from "../base/errors.ts";
import type { PacketTable } from "../compare/packets.ts";
import { packetCsvLines, packetJsonLines } from "../present/packets/packet-lines.ts";

const LINES: Record<string, (table: PacketTable) => Iterable<string>> = {
  csv: packetCsvLines,
  jsonl: packetJsonLines,
  ndjson: packetJsonLines,
};
const PIECE_CHARACTERS = 1 << 20;

export function packetFileOption(text: string): string {
  const ending = endingOf(text);
  if (ending === "parquet" || ending in LINES) return text;
  throw invalidValue("packets", text, "a file name that ends in .csv, .jsonl or .parquet");
}

const endingOf = (path: string) => /\.([a-z]+)$/i.exec(path)?.[1]?.toLowerCase() ?? "";

export async function writePacketFile(path: string, table: PacketTable): Promise<void> {
  const lines = LINES[endingOf(path)];
  try {
    if (lines) writeLines(path, lines(table));
    else await (await import("../present/packets/packet-parquet.ts")).writePacketParquet(path, table);
  } catch (cause) {
    if (!(cause instanceof Error) || !("syscall" in cause)) throw cause;
    throw new UsageError("not-writable", `${path}: cannot be written (${cause.message})`, undefined, {
      cause,
    });
  }
}

function writeLines(path: string, lines: Iterable<string>): void {
  const file = openSync(path, "w");
  try {
    let waiting = "";
    for (const line of lines) {
      waiting += line;
      if (waiting.length < PIECE_CHARACTERS) continue;
      writeFileSync(file, waiting);
      waiting = "";
    }
    writeFileSync(file, waiting);
  } finally {
    closeSync(file);
  }
}
