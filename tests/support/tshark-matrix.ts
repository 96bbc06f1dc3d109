/** Compares our decoding of a capture with tshark's, frame by frame, and separates explained from unexplained differences. */
import { readFrames } from "./capture-rows.ts";
import { type Endpoint, parseTshark, type TsharkFrame, tsharkText } from "./tshark.ts";

export interface Disagreement {
  file: string;
  frame: number;
  kind: "open" | "frames" | "time" | "length" | "missed" | "extra" | "address" | "protocol" | "ports";
  inner: boolean;
  ours: string;
  theirs: string;
  tshark: TsharkFrame | null;
  complaint: string;
}

/** A reason why tshark's result differs from the desired one, and a test whether it applies. */
export interface Exception {
  reason: string;
  holds(d: Disagreement): boolean;
}

export interface MatrixTally {
  files: number;
  frames: number;
  ipFrames: number;
  agreed: number;
  explained: Map<string, number>;
  unexplained: Disagreement[];
}

export function newTally(): MatrixTally {
  return { files: 0, frames: 0, ipFrames: 0, agreed: 0, explained: new Map(), unexplained: [] };
}

const show = (e: {
  src: string;
  dst: string;
  proto: number | null;
  sport: number | null;
  dport: number | null;
}) => `${e.src} > ${e.dst} proto ${e.proto} ports ${e.sport} ${e.dport}`;

/** Converts tshark's "seconds.nanoseconds" to ns; null if it prints none. */
function timeNs(text: string): bigint | null {
  const match = /^(-?)(\d+)\.(\d{9})$/.exec(text);
  if (!match) return null;
  const ns = BigInt(match[2]!) * 1_000_000_000n + BigInt(match[3]!);
  return match[1] === "-" ? -ns : ns;
}

/** Timestamps are doubles of ns after the first packet: exact up to 104 days, then rounded. */
function timeAgrees(ours: bigint, theirs: bigint, originNs: bigint): boolean {
  const span = theirs > originNs ? theirs - originNs : originNs - theirs;
  const slack = span >> 53n;
  const off = ours > theirs ? ours - theirs : theirs - ours;
  return off <= slack;
}

/** Reads `file` both ways and adds the outcome to the tally. */
export async function compareFile(
  file: string,
  config: string,
  exceptions: readonly Exception[],
  tally: MatrixTally,
): Promise<void> {
  const { text, complaint } = await tsharkText(file, config);
  // tshark treats blocks that are not packets (custom blocks of pcapng) as frames.
  const theirs = parseTshark(text).filter((f) => !(f.time === "" && f.protocols.join() === "data"));
  tally.files++;
  const note = (d: Omit<Disagreement, "file" | "complaint">) => {
    const whole = { ...d, file, complaint };
    const why = exceptions.find((e) => e.holds(whole));
    if (why) tally.explained.set(why.reason, (tally.explained.get(why.reason) ?? 0) + 1);
    else tally.unexplained.push(whole);
  };
  for (const inner of [false, true]) {
    let ours: Awaited<ReturnType<typeof readFrames>>;
    try {
      ours = await readFrames(file, { inner });
    } catch (error) {
      if (theirs.length > 0 && !inner)
        note({
          frame: 0,
          kind: "open",
          inner,
          ours: (error as Error).message,
          theirs: `${theirs.length} frames`,
          tshark: null,
        });
      return;
    }
    if (!inner && ours.frames.length !== theirs.length) {
      const summary = `${ours.frames.length} frames, ${ours.statistics.partial ?? "whole"}`;
      note({
        frame: 0,
        kind: "frames",
        inner,
        ours: summary,
        theirs: `${theirs.length} frames`,
        tshark: null,
      });
    }
    const n = Math.min(ours.frames.length, theirs.length);
    for (let i = 0; i < n; i++) {
      const mine = ours.frames[i]!;
      const other = theirs[i]!;
      const expected: Endpoint | null = inner ? other.inner : other.outer;
      const at = { frame: i + 1, inner, tshark: other };
      tally.frames++;
      if (mine.row && !inner) {
        const theirNs = timeNs(other.time);
        if (theirNs !== null && !timeAgrees(mine.row.timeNs, theirNs, ours.statistics.originNs!))
          note({ ...at, kind: "time", ours: String(mine.row.timeNs), theirs: other.time });
        if (mine.row.wireLength !== other.length)
          note({ ...at, kind: "length", ours: String(mine.row.wireLength), theirs: String(other.length) });
      }
      const { row } = mine;
      if (!row && !expected) {
        tally.agreed++;
        continue;
      }
      tally.ipFrames++;
      const both = {
        ours: row ? show(row) : String(mine.reason),
        theirs: expected ? show(expected) : "no IP",
      };
      if (!row) note({ ...at, kind: "missed", ...both });
      else if (!expected) note({ ...at, kind: "extra", ...both });
      else if (row.src !== expected.src || row.dst !== expected.dst)
        note({ ...at, kind: "address", ...both });
      else if (row.proto !== expected.proto) note({ ...at, kind: "protocol", ...both });
      else if (row.sport !== expected.sport || row.dport !== expected.dport)
        note({ ...at, kind: "ports", ...both });
      else tally.agreed++;
    }
  }
}

/** Two at a time: the machine has two cores, and starting tshark takes most of the time. */
export async function compareAll(
  files: readonly string[],
  config: string,
  exceptions: readonly Exception[],
): Promise<MatrixTally> {
  const tally = newTally();
  let next = 0;
  const worker = async () => {
    while (next < files.length) await compareFile(files[next++]!, config, exceptions, tally);
  };
  await Promise.all([worker(), worker()]);
  return tally;
}

export function describeTally(tally: MatrixTally): string {
  const lines = [
    `${tally.files} files, ${tally.frames} comparisons (${tally.ipFrames} of IP frames), ${tally.agreed} agree, ${tally.unexplained.length} unexplained`,
  ];
  for (const [reason, n] of [...tally.explained].sort((a, b) => b[1] - a[1]))
    lines.push(`  ${n} explained: ${reason}`);
  for (const d of tally.unexplained.slice(0, 200)) {
    const where = `${d.file.split("/").slice(-2).join("/")}#${d.frame}${d.inner ? " inner" : ""}`;
    lines.push(
      `  UNEXPLAINED ${d.kind} ${where}: ours ${d.ours}; tshark ${d.theirs} [${d.tshark?.protocols.join(":") ?? ""}] ${d.complaint.split("\n").slice(1).join(" ").trim()}`,
    );
  }
  return lines.join("\n");
}
