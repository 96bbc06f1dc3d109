/**
 * Maps with one link per line: Rocketfuel weights (and latencies), edge lists in CSV, and Repetita's .graph.
 *
 * Rocketfuel and CSV lines are one direction each if the file lists any link in both directions; otherwise every line stands for both.
 */

import { FormatError } from "../../base/errors.ts";
import { countOf } from "../../base/quantity.ts";
import { lineError, meaningfulLines, positiveField, type TextLine } from "./text-lines.ts";
import { definedOnly, type LinkAttributes, type Topology, TopologyBuilder } from "./topology.ts";

interface NamedLink extends LinkAttributes {
  readonly from: string;
  readonly to: string;
}

/** `name name weight` per line; names contain no spaces (they contain `+` and commas). */
export function parseRocketfuel(
  text: string,
  file: string,
  latencies?: { text: string; file: string },
): Topology {
  const links = [...rocketfuelLines(text, file, "weight")].map(({ line, from, to, value }) => ({
    from,
    to,
    weight: positiveField(file, text, line, "weight", value),
  }));
  const latencyOf = new Map<string, number[]>();
  if (latencies) {
    for (const { line, from, to, value } of rocketfuelLines(latencies.text, latencies.file, "latency")) {
      const latencyMs = Number(value);
      if (!(latencyMs >= 0 && Number.isFinite(latencyMs)))
        throw lineError(latencies.file, latencies.text, line, `latency '${value}' is not a number from 0`);
      const key = `${from} ${to}`;
      const known = latencyOf.get(key);
      if (known) known.push(latencyMs);
      else latencyOf.set(key, [latencyMs]);
    }
  }
  // Parallel links take the latencies of their pair in file order.
  const withLatency = links.map((link) =>
    definedOnly({ ...link, latencyMs: latencyOf.get(`${link.from} ${link.to}`)?.shift() }),
  );
  return fromNamedLinks(withLatency, file, (builder) => {
    const missing = withLatency.filter((l) => l.latencyMs === undefined).length;
    if (latencies && missing > 0)
      builder.note(`${countOf(missing, "link")} without a latency in ${latencies.file}`);
  });
}

function* rocketfuelLines(text: string, file: string, what: string) {
  for (const line of meaningfulLines(text)) {
    const [from, to, value, ...rest] = line.text.split(/\s+/);
    if (from === undefined || to === undefined || value === undefined || rest.length > 0)
      throw lineError(file, text, line, `expected 'router router ${what}'`);
    yield { line, from, to, value };
  }
}

/** Whether the first line looks like Rocketfuel's, whose names may contain commas, too. */
export function looksLikeRocketfuel(firstLine: string): boolean {
  const fields = firstLine.split(/\s+/);
  return (
    fields.length === 3 &&
    Number.isFinite(Number(fields[2])) &&
    !fields.slice(0, 2).some((f) => /[,;]$/.test(f))
  );
}

/** `from,to[,weight[,latencyMs[,capacityBps]]]`, with or without a heading; commas, semicolons or tabs. */
export function parseEdgeList(text: string, file: string): Topology {
  const links: NamedLink[] = [];
  let separator: string | undefined;
  for (const line of meaningfulLines(text)) {
    if (separator === undefined) {
      separator = ["\t", ";", ","].find((s) => line.text.includes(s));
      if (separator === undefined)
        throw lineError(file, text, line, "expected 'from,to[,weight[,latencyMs]]'");
      const first = splitFields(line.text, separator).map((f) => f.toLowerCase());
      if (/^(from|source|src)/.test(first[0] ?? "") && /^(to|target|dst|dest)/.test(first[1] ?? "")) continue;
    }
    const [from, to, weight, latency, capacity, ...rest] = splitFields(line.text, separator);
    if (!from || !to || rest.length > 0)
      throw lineError(file, text, line, "expected 'from,to[,weight[,latencyMs[,capacity]]]'");
    const optional = (name: string, value: string | undefined) =>
      value === undefined || value === "" ? undefined : positiveField(file, text, line, name, value);
    // A latency of 0 is a measured one that was rounded to zero; a weight of 0 is invalid.
    const latencyMs = latency === "0" ? 0 : optional("latencyMs", latency);
    links.push(
      definedOnly({
        from,
        to,
        weight: optional("weight", weight),
        latencyMs,
        capacityBps: optional("capacity", capacity),
      }) as NamedLink,
    );
  }
  return fromNamedLinks(links, file);
}

/** Splits a CSV line; quotes protect separators, doubled quotes are one. */
export function splitFields(line: string, separator: string): string[] {
  const fields: string[] = [];
  let field = "";
  let quoted = false;
  for (let i = 0; i < line.length; i++) {
    const c = line.charAt(i);
    if (quoted) {
      if (c !== '"') field += c;
      else if (line[i + 1] === '"') {
        field += '"';
        i++;
      } else quoted = false;
    } else if (c === '"' && field.trim() === "") {
      quoted = true;
      field = "";
    } else if (c === separator) {
      fields.push(field.trim());
      field = "";
    } else field += c;
  }
  fields.push(field.trim());
  return fields;
}

function fromNamedLinks(
  links: readonly NamedLink[],
  file: string,
  more?: (builder: TopologyBuilder) => void,
): Topology {
  if (links.length === 0) throw new FormatError("empty", file, 0, "this map contains no links");
  const listed = new Set(links.map((l) => JSON.stringify([l.from, l.to])));
  const directed = links.some((l) => l.from !== l.to && listed.has(JSON.stringify([l.to, l.from])));
  const builder = new TopologyBuilder();
  for (const { from, to, ...attributes } of links) {
    const a = builder.router(from);
    const b = builder.router(to);
    if (directed) builder.link(a, b, attributes);
    else builder.bothWays(a, b, attributes);
  }
  if (directed) {
    const oneWay = [...listed].filter((key) => {
      const [from, to] = JSON.parse(key) as [string, string];
      return !listed.has(JSON.stringify([to, from]));
    }).length;
    if (oneWay > 0) builder.note(`${countOf(oneWay, "link")} without the reverse direction`);
  }
  more?.(builder);
  return builder.finish(file);
}

/**
 * Repetita: `NODES n`, a heading, `label x y` lines; `EDGES m`, a heading, `label src dest weight bw delay` lines with
 * routers by number, capacity in kbit/s, delay in milliseconds. Links are directed.
 */
export function parseRepetita(text: string, file: string): Topology {
  const builder = new TopologyBuilder();
  const routers: number[] = [];
  let section: "" | "nodes" | "edges" = "";
  let left = 0;
  let heading = false;
  let last: TextLine | undefined;
  for (const line of meaningfulLines(text)) {
    last = line;
    const fields = line.text.split(/\s+/);
    const start = /^(NODES|EDGES)$/.exec(fields[0] ?? "");
    if (start) {
      if (left > 0) throw lineError(file, text, line, `${left} lines of the section before are missing`);
      section = start[1] === "NODES" ? "nodes" : "edges";
      left = Number(fields[1]);
      if (!Number.isSafeInteger(left) || left < 0)
        throw lineError(file, text, line, `'${fields[1]}' is not a number of lines`);
      heading = true;
    } else if (section === "") throw lineError(file, text, line, "expected 'NODES n'");
    else if (heading) heading = false;
    else if (left-- <= 0)
      throw lineError(file, text, line, `more lines than the ${section} section announced`);
    else if (section === "nodes") routers.push(repetitaNode(builder, fields, line));
    else {
      const [, from, to, weight, bandwidth, delay] = fields;
      const a = routers[Number(from)];
      const b = routers[Number(to)];
      if (a === undefined || b === undefined)
        throw lineError(file, text, line, `link between routers ${from} and ${to}, of ${routers.length}`);
      const capacityKbps = Number(bandwidth);
      const latencyMs = Number(delay);
      builder.link(a, b, {
        weight: positiveField(file, text, line, "weight", weight ?? ""),
        ...definedOnly({
          capacityBps: capacityKbps > 0 ? capacityKbps * 1000 : undefined,
          latencyMs: delay !== undefined && latencyMs >= 0 ? latencyMs : undefined,
        }),
      });
    }
  }
  if (left > 0 && last) throw lineError(file, text, last, `the file ends ${left} lines early`);
  if (routers.length === 0) throw new FormatError("empty", file, 0, "this map contains no routers");
  return builder.finish(file);
}

function repetitaNode(builder: TopologyBuilder, fields: string[], line: TextLine): number {
  let name = fields[0] ?? `line ${line.number}`;
  while (builder.has(name)) name = `${name}'`;
  const x = Number(fields[1]);
  const y = Number(fields[2]);
  // Maps without coordinates write 0.0 0.0 for all routers.
  return builder.router(name, x === 0 && y === 0 ? {} : { x, y });
}
