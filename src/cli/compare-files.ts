/** What `hoptime compare` writes besides its report: packets one by one, an annotated capture, metrics. */
import { resolve } from "node:path";
import { UsageError } from "../base/errors.ts";
import { formatDuration, formatTime } from "../base/time.ts";
import { parseCapturePath } from "../capture/source/capture-path.ts";
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
  worst?: number;
  html?: string;
  prometheus?: string;
}

/** A slip of the hand must not cost a capture. */
export function refuseOverwriting(before: string, after: string, flags: PacketFlags): void {
  const captures = [before, after].map((path) => resolve(parseCapturePath(path).file));
  for (const name of ["packets", "annotate", "html", "prometheus"] as const) {
    const file = flags[name];
    if (file !== undefined && captures.includes(resolve(file)))
      throw new UsageError("bad-option", `${file} is one of the captures`, "name another file", {
        parameter: name,
      });
  }
  if (flags.annotate !== undefined && parseCapturePath(before).file === "-")
    throw new UsageError("bad-option", "standard input cannot be read twice", "give <before> as a file", {
      parameter: "annotate",
    });
}

export async function writePackets(
  packets: ComparedPackets,
  flags: PacketFlags,
  before: string,
): Promise<void> {
  if (flags.packets !== undefined) await writePacketFile(flags.packets, packets.table);
  if (flags.annotate !== undefined) await annotate(packets, flags.annotate, before);
}

async function annotate(packets: ComparedPackets, target: string, before: string): Promise<void> {
  const { annotateCapture } = await import("../present/packets/annotate.ts");
  const { table } = packets;
  const ids = Uint32Array.from({ length: table.length }, (_, id) => id);
  const frames = (await packets.frames("before", ids)) ?? new Uint32Array(0);
  const byFrame = new Map<number, number>();
  for (const [id, frame] of frames.entries()) if (frame > 0) byFrame.set(frame, id);
  const comment = (frame: number) => {
    const id = byFrame.get(frame);
    if (id === undefined) return null;
    const delayNs = table.delayNs(id);
    return delayNs === null ? table.outcome(id) : `delay ${(delayNs / 1e6).toFixed(6)} ms`;
  };
  await writeWhole(target, (to) => annotateCapture(before, to, comment));
}

export interface WorstPacket {
  packet: PacketReport;
  flow: string;
  beforeFrame: number | null;
  afterFrame: number | null;
}

/** The slowest and the last lost packets, with the numbers of their frames. */
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
  const time = (ns: bigint | null) => (ns === null ? "–" : formatTime(ns));
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

/** A report whose notes name flags. */
export function flagged(report: ReportView): ReportView {
  return { ...report, cdf: report.cdf, heat: report.heat, notes: report.notes.map(withFlags) };
}
