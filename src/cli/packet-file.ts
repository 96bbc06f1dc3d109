/** `--packets FILE`: writes every packet, in the format of the file name's extension. */
import { closeSync, openSync, writeFileSync } from "node:fs";
import { setImmediate as nextTurn } from "node:timers/promises";
import { invalidValue } from "../base/errors.ts";
import type { PacketTable } from "../compare/packets.ts";
import { packetCsvLines, packetJsonLines } from "../present/packets/packet-lines.ts";
import { writeWhole } from "./whole-file.ts";

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
  await writeWhole(path, async (to) => {
    if (lines) await writeLines(to, lines(table));
    else await (await import("../present/packets/packet-parquet.ts")).writePacketParquet(to, table);
  });
}

async function writeLines(path: string, lines: Iterable<string>): Promise<void> {
  const file = openSync(path, "w");
  try {
    let waiting = "";
    for (const line of lines) {
      waiting += line;
      if (waiting.length < PIECE_CHARACTERS) continue;
      writeFileSync(file, waiting);
      waiting = "";
      // Lets signals be handled between two pieces.
      await nextTurn();
    }
    writeFileSync(file, waiting);
  } finally {
    closeSync(file);
  }
}
