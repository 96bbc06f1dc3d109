/** Additional output of `hoptime compare`: single packets, an annotated capture, metrics. */
import { resolve } from "node:path";
import { UsageError } from "../base/errors.ts";
import { formatDuration, formatTime } from "../base/time.ts";
import { isStandardInput, parseCapturePath } from "../capture/source/capture-path.ts";
import type { ComparedPackets } from "../compare/compared-packets.ts";
import type { PacketReport } from "../compare/packets.ts";
import type { ReportView } from "../compare/report.ts";
import type { Palette } from "../present/text/palette.ts";
import { formatTable } from "../present/text/table.ts";
import { withFlags } from "./flags.ts";
import { writePacketFile } from "./packet-file.ts";
import { writeWhole } from "./whole-file.ts";

export interface PacketFlags {
  packets?: string;
  annotate?: string;
  annotateAfter?: string;
  worst?: number;
  html?: string;
  prometheus?: string;
}

/** Refuses output files that would overwrite a capture. */
export function refuseOverwriting(before: string, after: string, flags: PacketFlags): void {
  const captures = [before, after].map((path) => resolve(parseCapturePath(path).file));
  const written = new Set<string>();
  for (const name of ["packets", "annotate", "annotateAfter", "html", "prometheus"] as const) {
    const file = flags[name];
    if (file === undefined) continue;
    const refuse = (what: string) =>
      new UsageError("bad-option", `${file} is ${what}`, "name another file", { parameter: name });
    if (captures.includes(resolve(file))) throw refuse("one of the captures");
    if (written.has(resolve(file))) throw refuse("written by another option too");
    written.add(resolve(file));
  }
  for (const [name, path] of [
    ["annotate", before],
    ["annotateAfter", after],
  ] as const) {
    if (flags[name] !== undefined && isStandardInput(path))
      throw new UsageError(
        "bad-option",
        "standard input cannot be read twice",
        "give the capture as a file",
        {
          parameter: name,
        },
      );
  }
}

export async function writePackets(
  packets: ComparedPackets,
  flags: PacketFlags,
  captures: { before: string; after: string },
): Promise<void> {
  if (flags.packets !== undefined) await writePacketFile(flags.packets, packets.table);
  for (const [side, target] of [
    ["before", flags.annotate],
    ["after", flags.annotateAfter],
  ] as const) {
    if (target === undefined) continue;
    const { annotateCapture } = await import("../present/packets/annotate.ts");
    const { packetComments } = await import("../present/packets/packet-comments.ts");
    const comments = await packetComments(packets, side, captures);
    await writeWhole(target, (to) => annotateCapture(captures[side], to, comments));
  }
}

export interface WorstPacket {
  packet: PacketReport;
  flow: string;
  beforeFrame: number | null;
  afterFrame: number | null;
}

/** Returns the slowest and the last lost packets, with their frame numbers. */
export async function worstPackets(
  packets: ComparedPackets,
  n: number,
): Promise<{ slowest: WorstPacket[]; lost: WorstPacket[] }> {
  const { slowest, lost } = packets.table.worst(n);
  const ids = [...slowest, ...lost].map((p) => p.id);
  const before = await packets.frames("before", ids);
  const after = await packets.frames("after", ids);
  const all = [...slowest, ...lost].map((packet, i) => ({
    packet,
    flow: packets.table.flowText(packet.flow),
    beforeFrame: before?.[i] || null,
    afterFrame: after?.[i] || null,
  }));
  return { slowest: all.slice(0, slowest.length), lost: all.slice(slowest.length) };
}

export function formatWorst(worst: { slowest: WorstPacket[]; lost: WorstPacket[] }, c: Palette): string {
  const frame = (n: number | null) => (n === null ? "–" : String(n));
  const time = (ns: bigint | null) => (ns === null ? "–" : formatTime(ns, 6));
  const table = (title: string, rows: WorstPacket[]) =>
    rows.length === 0
      ? []
      : [
          "",
          c.bold(title),
          formatTable<WorstPacket>(
            [
              { title: "flow", align: "left", value: (w) => w.flow },
              { title: "sent", value: (w) => time(w.packet.sentNs) },
              {
                title: "delay",
                value: (w) =>
                  w.packet.delayNs === null ? w.packet.outcome : formatDuration(w.packet.delayNs),
              },
              { title: "frame before", value: (w) => frame(w.beforeFrame) },
              { title: "frame after", value: (w) => frame(w.afterFrame) },
            ],
            rows,
            { colours: c },
          ),
        ];
  return [...table("slowest packets", worst.slowest), ...table("last lost packets", worst.lost), ""].join(
    "\n",
  );
}

export function worstJson(worst: { slowest: WorstPacket[]; lost: WorstPacket[] }) {
  const row = ({ packet, flow, beforeFrame, afterFrame }: WorstPacket) => ({
    sentNs: packet.sentNs?.toString() ?? null,
    receivedNs: packet.receivedNs?.toString() ?? null,
    delayNs: packet.delayNs,
    outcome: packet.outcome,
    direction: packet.direction,
    flow,
    beforeFrame,
    afterFrame,
  });
  return { slowest: worst.slowest.map(row), lost: worst.lost.map(row) };
}

/** Returns the report with flag names in its sentences. */
export function flagged(report: ReportView): ReportView {
  const { cdf, heat, lossCause } = report;
  const cause = lossCause === undefined ? {} : { lossCause: withFlags(lossCause) };
  return { ...report, cdf, heat, ...cause, notes: report.notes.map(withFlags) };
}
