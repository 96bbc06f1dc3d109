/** Describes the outcome of each frame of a compared capture, as the comment that Wireshark shows with it. */
import { parseCapturePath } from "../../capture/source/capture-path.ts";
import type { ComparedPackets } from "../../compare/compared-packets.ts";
import type { PacketTable } from "../../compare/packets.ts";

/** Returns the comment for a frame number, from 1; null if the comparison has no outcome for it. */
export type Comments = (frame: number) => string | null;

type Side = "before" | "after";

/** Returns the comments for one of the captures. If both points are in one file, for the packets of both. */
export async function packetComments(
  packets: ComparedPackets,
  side: Side,
  captures: Record<Side, string>,
): Promise<Comments> {
  const file = (path: string) => parseCapturePath(path).file;
  const one = file(captures.before) === file(captures.after);
  const { table } = packets;
  const ids = Uint32Array.from({ length: table.length }, (_, id) => id);
  const frames = {
    before: (await packets.frames("before", ids)) ?? new Uint32Array(table.length),
    after: (await packets.frames("after", ids)) ?? new Uint32Array(table.length),
  };
  const ofSide = (s: Side): Comments => {
    const rows = new FrameRows(frames[s]);
    const partner = frames[s === "before" ? "after" : "before"];
    return (frame) => {
      const found = rows.of(frame);
      const other = (id: number) => {
        const n = partner[id] ?? 0;
        return n === 0 ? "" : `, frame ${n}${one ? "" : ` in ${s === "before" ? "AFTER" : "BEFORE"}`}`;
      };
      return found.length === 0 ? null : describe(table, found, other);
    };
  };
  if (!one) return ofSide(side);
  const [before, after] = [ofSide("before"), ofSide("after")];
  return (frame) => before(frame) ?? after(frame);
}

/** Rows of the packet table by frame: mostly one, several if segments were merged. */
class FrameRows {
  readonly #first: Uint32Array;
  readonly #next: Uint32Array;

  constructor(frames: Uint32Array) {
    this.#first = new Uint32Array(frames.reduce((n, frame) => Math.max(n, frame), 0) + 1);
    this.#next = new Uint32Array(frames.length);
    for (let id = frames.length - 1; id >= 0; id--) {
      const frame = frames[id] ?? 0;
      if (frame === 0) continue;
      this.#next[id] = this.#first[frame] ?? 0;
      this.#first[frame] = id + 1;
    }
  }

  of(frame: number): number[] {
    const ids: number[] = [];
    for (let at = this.#first[frame] ?? 0; at !== 0; at = this.#next[at - 1] ?? 0) ids.push(at - 1);
    return ids;
  }
}

function describe(table: PacketTable, ids: number[], other: (id: number) => string): string {
  const [first = 0] = ids;
  const way = table.direction(first) === "reverse" ? " (reverse)" : "";
  const [lone] = ids.length === 1 ? ids : [];
  if (lone !== undefined && table.log.sharedFrames(lone) === null)
    return `${outcomeOf(table, lone)}${way}${other(lone)}`;
  // Segments merged at one point: take the delay of the last byte.
  const withDelay = ids.findLast((id) => table.delayNs(id) !== null);
  const missing = (outcome: "lost" | "appeared") => {
    const n = ids.reduce((sum, id) => sum + (table.outcome(id) === outcome ? table.log.packets(id) : 0), 0);
    return n === 0 ? [] : [`${n} ${n === 1 ? "packet" : "packets"} ${outcome}`];
  };
  const met = ids.find((id) => table.outcome(id) === "delivered");
  const head =
    withDelay !== undefined
      ? [`${outcomeOf(table, withDelay)}${way} of the last byte${other(withDelay)}`]
      : met !== undefined
        ? [`delivered${way}${other(met)}`]
        : [];
  return [...head, "segments merged on the way", ...missing("lost"), ...missing("appeared")].join(", ");
}

function outcomeOf(table: PacketTable, id: number): string {
  const delayNs = table.delayNs(id);
  if (delayNs !== null) return `delay ${(delayNs / 1e6).toFixed(6)} ms`;
  const outcome = table.outcome(id);
  return outcome === "part" ? "fragment" : outcome;
}
