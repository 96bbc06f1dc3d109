/** Questions about single packets of a point's records (MAPLE, section 4), and their validation. */
import { checkBigNs, checkChoice, checkCount } from "../../base/checks.ts";
import { invalidValue, UsageError } from "../../base/errors.ts";
import { hex64, parseHex64 } from "../../base/hash.ts";
import { formatTime } from "../../base/time.ts";
import type { IpidRange } from "../../estimators/estimator.ts";

export type AskedPackets =
  /** Digests of sixteen hexadecimal digits. */
  | { by: "digest"; digests: readonly string[] }
  /** Flows as `tcp 10.0.0.1:443 > 10.0.0.9:51000`. `ipids` null: the IPIDs that the records list. */
  | { by: "flow"; flows: readonly string[]; ipids: readonly IpidRange[] | null }
  /** All packets of a capture that match the filter. */
  | { by: "capture"; file: string; filter?: string | undefined }
  /** All flows that the records list. */
  | { by: "listed" };

export interface PacketQuestion {
  packets: AskedPackets;
  /** Point whose records are asked; required if there are several. */
  point?: string | undefined;
  segment?: string | undefined;
  /** Approximate time range: every epoch that overlaps it is asked. */
  fromNs?: bigint | undefined;
  toNs?: bigint | undefined;
  /** How far a packet's time in the capture may differ from its time at the point: near an edge, the neighbouring epoch is asked too. */
  slackNs?: number | undefined;
  /** all, packet, subflow/N, flow, host, prefix/N or any key. */
  group?: string | undefined;
  /** Number of groups, largest first. */
  top?: number | undefined;
  /** Number of slowest packets listed per group. */
  worst?: number | undefined;
}

export const DEFAULT_SLACK_NS = 50_000_000;
export const DEFAULT_WORST = 5;

export interface Grouping {
  kind: "all" | "packet" | "subflow" | "key";
  /** Packets per sub-flow. */
  length: number;
  /** The key to group by; undefined: the flows as observed. */
  key: string | undefined;
}

export function parseGrouping(text: string | undefined): Grouping {
  if (text === "all" || text === "packet") return { kind: text, length: 0, key: undefined };
  const parts = /^subflow(?:\/(\d+))?$/.exec(text ?? "");
  if (parts) {
    const length = Number(parts[1] ?? 10);
    if (length < 1)
      throw invalidValue("group", text, "subflow/N with N of at least 1", { code: "bad-question" });
    return { kind: "subflow", length, key: undefined };
  }
  return {
    kind: "key",
    length: 0,
    key: text === undefined || text === "flow" ? undefined : text === "host" ? "hosts" : text,
  };
}

/** Parses `100-250`, `7`, or several of these separated by commas. */
export function parseIpids(text: string): IpidRange[] {
  return text.split(",").map((part) => {
    const match = /^\s*(\d{1,5})(?:\s*-\s*(\d{1,5}))?\s*$/.exec(part);
    const [first, last] = [Number(match?.[1] ?? Number.NaN), Number(match?.[2] ?? match?.[1] ?? Number.NaN)];
    if (!(first <= last && last <= 65_535)) {
      throw invalidValue("ipid", text, "ranges within 0 to 65535, e.g. 100-250,300", {
        code: "bad-question",
      });
    }
    return { first, last };
  });
}

export function parseDigest(text: string): bigint {
  if (!/^(0x)?[0-9a-f]{16}$/i.test(text))
    throw invalidValue("packet", text, "a digest: 16 hexadecimal digits, such as 5be0cd19137e2179", {
      code: "bad-question",
      hint: "copy one from a list of packets (hoptime compare ‘packets’, or an answer about a flow's packets)",
    });
  const [high, low] = parseHex64(text);
  return (BigInt(high) << 32n) | BigInt(low);
}

export function formatDigest(digest: bigint): string {
  return hex64(Number(digest >> 32n), Number(digest & 0xffff_ffffn));
}

export function checkPacketQuestion(question: PacketQuestion): void {
  const { fromNs, toNs, packets, slackNs, top, worst } = question;
  const code = "bad-question" as const;
  checkChoice("packets", packets?.by, ["digest", "flow", "capture", "listed"], code);
  checkBigNs("from", fromNs, code);
  checkBigNs("to", toNs, code);
  checkCount("top", top, 1, code);
  checkCount("worst", worst, 0, code);
  const bad = (parameter: string, problem: string, value?: unknown) =>
    new UsageError("bad-question", problem, undefined, { parameter, value });
  if (fromNs !== undefined && toNs !== undefined && fromNs >= toNs) {
    throw bad("from", `${formatTime(fromNs)} is not before ‘to ${formatTime(toNs)}’`, fromNs);
  }
  if (slackNs !== undefined && !(slackNs >= 0 && Number.isFinite(slackNs)))
    throw invalidValue("slack", slackNs, "a time of 0 or more, in ns", { code });
  if (packets.by === "digest" && packets.digests.length === 0) throw bad("packet", "no digest given");
  if (packets.by === "flow" && packets.flows.length === 0) throw bad("flow", "no flow given");
}

export function slackOf({ slackNs = DEFAULT_SLACK_NS }: PacketQuestion): bigint {
  return BigInt(Math.round(slackNs));
}

export function describePacketQuestion(question: PacketQuestion): Record<string, unknown> {
  const { packets } = question;
  const ranges = (list: readonly IpidRange[] | null) =>
    list?.map(({ first, last }) => (first === last ? `${first}` : `${first}-${last}`)) ?? null;
  return {
    by: packets.by,
    ...(packets.by === "digest" ? { packets: packets.digests } : {}),
    ...(packets.by === "flow" ? { flows: packets.flows, ipids: ranges(packets.ipids) } : {}),
    ...(packets.by === "capture" ? { capture: packets.file, filter: packets.filter ?? null } : {}),
    point: question.point ?? null,
    segment: question.segment ?? null,
    group: question.group ?? null,
    fromNs: question.fromNs?.toString() ?? null,
    toNs: question.toNs?.toString() ?? null,
    slackNs: question.slackNs ?? DEFAULT_SLACK_NS,
  };
}
