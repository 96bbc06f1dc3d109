/** Columns of a packet in CSV, JSON Lines and Parquet, with the same names and units in all of them. */
import type { FlowKey } from "../../capture/flow/flow-key.ts";
import type { PacketReport, PacketTable } from "../../compare/packets.ts";

export const PACKET_COLUMNS = [
  "sentNs",
  "receivedNs",
  "delayNs",
  "outcome",
  "direction",
  "packets",
  "src",
  "dst",
  "proto",
  "sport",
  "dport",
  "dscp",
  "vlan",
] as const;
export type PacketColumn = (typeof PACKET_COLUMNS)[number];
export type PacketRow = Record<PacketColumn, bigint | number | string | null>;

/** Describes each flow only once: a capture has far fewer flows than packets. */
export function* packetRows(table: PacketTable): Generator<PacketRow> {
  const keys = new Map<number, FlowKey>();
  for (const packet of table) {
    let key = keys.get(packet.flow);
    if (key === undefined) {
      key = table.key(packet.flow);
      keys.set(packet.flow, key);
    }
    yield packetRow(packet, key);
  }
}

function packetRow(
  { sentNs, receivedNs, delayNs, outcome, direction, packets }: PacketReport,
  key: FlowKey,
): PacketRow {
  return {
    sentNs,
    receivedNs,
    delayNs: delayNs === null ? null : Math.round(delayNs),
    outcome,
    direction,
    packets,
    src: key.src,
    dst: key.dst,
    proto: key.proto,
    sport: key.sport,
    dport: key.dport,
    dscp: key.dscp ?? null,
    vlan: key.vlan ?? null,
  };
}
