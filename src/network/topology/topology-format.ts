/**
 * Reads any map file into a Topology. The format is detected from the content, never from the name.
 *
 * XML → GraphML. JSON → hoptime.topology/1 or one of FRR's two databases. `NODES n` → Repetita. Three fields with a number last → Rocketfuel. Else an edge
 * list. Gzip is unpacked. Errors are one line with the file and the position.
 */
import { readFileSync, statSync } from "node:fs";
import { basename } from "node:path";
import { gunzipSync } from "node:zlib";
import { FormatError, UsageError } from "../../base/errors.ts";
import { isFrrRouterDatabase, isFrrTeDatabase, parseFrrRouterDatabase, parseFrrTeDatabase } from "./frr.ts";
import { parseGraphMl } from "./graphml.ts";
import { looksLikeRocketfuel, parseEdgeList, parseRepetita, parseRocketfuel } from "./line-formats.ts";
import { byteOffset, meaningfulLines } from "./text-lines.ts";
import type { Topology } from "./topology.ts";
import { isTopologyConfig, parseTopologyConfig } from "./topology-config.ts";

/** Far above any real map; a gzip bomb is refused here. */
const MAX_MAP_BYTES = 256 * 1024 * 1024;

export interface TopologyOptions {
  /** Rocketfuel only: the file of latencies that belongs to the weights. */
  readonly latencies?: { readonly content: Uint8Array | string; readonly file: string };
}

export function parseTopology(
  content: Uint8Array | string,
  file: string,
  options: TopologyOptions = {},
): Topology {
  const text = toText(content, file);
  const first = /\S/.exec(text);
  if (!first) throw new FormatError("empty", file, 0, "the file is empty");
  const topology = dispatch(text, first[0], file, options);
  if (options.latencies && !topology.links.some((l) => l.latencyMs !== undefined))
    throw new UsageError("bad-topology", `${file}: a file of latencies applies to Rocketfuel weights only`);
  // Errors give the whole path; a map without a name is named after its file.
  return topology.name === file ? { ...topology, name: basename(file) } : topology;
}

export function loadTopology(file: string, options: { latencies?: string } = {}): Topology {
  const { latencies } = options;
  return parseTopology(readMap(file), file, {
    ...(latencies === undefined ? {} : { latencies: { content: readMap(latencies), file: latencies } }),
  });
}

/** `hint`: what to give instead. */
export function readMap(file: string, hint = "give the path of a map, such as network.graphml"): Uint8Array {
  try {
    const { size } = statSync(file);
    if (size > MAX_MAP_BYTES) throw tooLarge(file);
    return readFileSync(file);
  } catch (cause) {
    if (cause instanceof FormatError) throw cause;
    const { code } = cause as NodeJS.ErrnoException;
    const why = code === "ENOENT" ? "no such file" : code === "EISDIR" ? "is a directory" : "cannot be read";
    throw new UsageError("no-such-file", `${file}: ${why}`, hint, { cause });
  }
}

function tooLarge(file: string): FormatError {
  return new FormatError("bad-record", file, 0, `more than ${MAX_MAP_BYTES / 2 ** 20} MiB: not a map`);
}

/** Bytes of a text file (gzip unpacked, byte order marks honoured) as text. */
export function toText(content: Uint8Array | string, file: string): string {
  if (typeof content === "string") return content.replace(/^\uFEFF/, "");
  let bytes = content;
  if (bytes[0] === 0x1f && bytes[1] === 0x8b) {
    try {
      bytes = gunzipSync(bytes, { maxOutputLength: MAX_MAP_BYTES });
    } catch (cause) {
      if ((cause as NodeJS.ErrnoException).code === "ERR_BUFFER_TOO_LARGE") throw tooLarge(file);
      throw new FormatError("bad-gzip", file, 0, "this gzip file is damaged", { cause });
    }
  }
  const utf16 = bytes[0] === 0xff && bytes[1] === 0xfe ? "utf-16le" : undefined;
  const text = new TextDecoder(utf16 ?? "utf-8").decode(bytes);
  if (text.includes("\0"))
    throw new FormatError("unknown-format", file, text.indexOf("\0"), "a binary file, not a map");
  return text;
}

function dispatch(text: string, first: string, file: string, options: TopologyOptions): Topology {
  if (first === "<") return parseGraphMl(text, file);
  if (first === "{" || first === "[") return fromJson(text, file);
  const line = meaningfulLines(text).next();
  if (line.done) throw new FormatError("empty", file, 0, "the file contains only comments");
  if (/^NODES\s/.test(line.value.text)) return parseRepetita(text, file);
  if (looksLikeRocketfuel(line.value.text)) {
    const { latencies } = options;
    return parseRocketfuel(
      text,
      file,
      latencies && { text: toText(latencies.content, latencies.file), file: latencies.file },
    );
  }
  if (/[,;\t]/.test(line.value.text)) return parseEdgeList(text, file);
  throw new FormatError(
    "unknown-format",
    file,
    byteOffset(text, line.value.at),
    `line ${line.value.number}: not a map: expected GraphML, JSON, Rocketfuel weights, Repetita or 'from,to,weight'`,
  );
}

function fromJson(text: string, file: string): Topology {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    const at = /position (\d+)/.exec((cause as Error).message)?.[1];
    throw new FormatError("bad-record", file, at ? byteOffset(text, Number(at)) : 0, "not valid JSON", {
      cause,
    });
  }
  if (isTopologyConfig(value)) return parseTopologyConfig(value, file);
  if (isFrrTeDatabase(value)) return parseFrrTeDatabase(value, file);
  if (isFrrRouterDatabase(value)) return parseFrrRouterDatabase(value, file);
  throw new UsageError(
    "bad-topology",
    `${file}: JSON, but neither hoptime.topology/1 nor an OSPF database of FRR`,
    `our own format begins with "format": "hoptime.topology/1"; see docs/formats/topology.md`,
  );
}
