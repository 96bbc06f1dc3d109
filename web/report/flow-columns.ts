/** Columns of the flow table: what each shows, and which exist for these flows. */

import { formatBytes, formatCount, formatShare } from "../../src/base/quantity.ts";
import { formatNs } from "../../src/base/time.ts";
import type { LatencyField } from "../../src/compare/report.ts";
import { type FlowRows, protocolName, type SortKey } from "./flow-rows.ts";

export interface Column {
  key: SortKey;
  label: string;
  hint: string;
  widthPx: number;
  text?: boolean;
  /** Two lines of small text. */
  lines?: boolean;
  /** Left out when printed, because paper does not scroll. */
  extra?: boolean;
  cell(rows: FlowRows, row: number): string;
}

const delay = (key: LatencyField, label: string, hint: string): Column => ({
  key,
  label,
  hint,
  widthPx: 92,
  cell: (rows, row) => {
    const ns = rows.columns.latency[key][row] ?? null;
    return ns === null ? "–" : formatNs(ns);
  },
});
const count = (key: "sent" | "lost" | "received", label: string, hint: string): Column => ({
  key,
  label,
  hint,
  widthPx: 84,
  cell: (rows, row) => formatCount(rows.columns.count[key][row]!),
});

const loss: Column = {
  key: "loss",
  label: "Loss",
  hint: "Lost, of the packets that could have arrived",
  widthPx: 84,
  cell: (rows, row) => {
    const share = rows.values("loss")[row] ?? null;
    return share === null ? "–" : formatShare(share);
  },
};
const p99 = delay("p99Ns", "p99", "99 % of the packets took no longer");

/** Below this width, source and destination share one column, so that delay and loss fit beside them. */
const NARROW_PX = 620;

function bothEnds(): Column {
  return {
    ...{ key: "src", label: "Flow", hint: "Source, destination and protocol", widthPx: 160 },
    ...{ text: true, lines: true },
    cell: (rows, row) => {
      const proto = rows.columns.key.proto[row] ?? null;
      const ends = `${rows.address(row, "src")}\n→ ${rows.address(row, "dst")}`;
      return proto === null ? ends : `${ends} ${protocolName(proto)}`;
    },
  };
}

export function tableColumns(directions: FlowRows[]): Column[] {
  const used = (field: "proto" | "dscp" | "vlan") =>
    directions.some((d) => d.columns.key[field].some((v) => v !== null));
  const plain = (key: "dscp" | "vlan", label: string): Column => ({
    key,
    label,
    hint: label,
    widthPx: 70,
    cell: (rows, row) => String(rows.columns.key[key][row] ?? "–"),
  });
  const longest = directions.reduce(
    (maximum, d) => d.columns.addresses.reduce((m, text) => Math.max(m, text.length), maximum),
    0,
  );
  const narrow = innerWidth < NARROW_PX;
  const addressPx = Math.max(172, Math.min(300, Math.round((longest + 7) * 7.4)));
  const sided = (side: "src" | "dst") => directions.some((d) => d.columns[side].some((v) => v !== null));
  const names =
    narrow && sided("src") && sided("dst")
      ? [bothEnds(), p99, loss]
      : [
          ...(sided("src") || !sided("dst") ? [address("src", "Source", addressPx)] : []),
          ...(sided("dst") ? [address("dst", "Destination", addressPx)] : []),
        ];
  return [
    ...names,
    ...(used("proto") && !names.includes(p99)
      ? [
          {
            key: "proto",
            label: "Proto",
            hint: "Protocol",
            widthPx: 78,
            text: true,
            cell: (rows, row) => protocolName(rows.columns.key.proto[row] ?? null),
          } satisfies Column,
        ]
      : []),
    ...(used("dscp") ? [plain("dscp", "DSCP")] : []),
    ...(used("vlan") ? [plain("vlan", "VLAN")] : []),
    count("sent", "Sent", "Packets seen where they leave"),
    count("lost", "Lost", "Packets lost on the way"),
    ...(names.includes(loss) ? [] : [loss]),
    delay("p50Ns", "p50", "Half of the packets took no longer"),
    ...(names.includes(p99) ? [] : [p99]),
    {
      key: "spread",
      label: "min · p50–p99 · max",
      hint: "Line: minimum to maximum delay. Block: p50 to p99. Sorts by p99 − p50.",
      widthPx: 168,
      cell: () => "",
    },
    delay("meanNs", "Mean", "Mean delay"),
    { ...delay("p90Ns", "p90", "90 % of the packets took no longer"), extra: true },
    { ...delay("p999Ns", "p99.9", "99.9 % of the packets took no longer"), extra: true },
    delay("maxNs", "Max", "Greatest delay"),
    {
      ...delay("jitterNs", "Jitter", "Mean difference of the delays of packets sent one after the other"),
      extra: true,
    },
    {
      key: "bytes",
      label: "Bytes",
      hint: "Bytes on the wire",
      widthPx: 84,
      extra: true,
      cell: (rows, row) => formatBytes(rows.columns.count.bytes[row]!),
    },
  ];
}

function address(side: "src" | "dst", label: string, widthPx: number): Column {
  return {
    key: side,
    label,
    hint: label,
    widthPx,
    text: true,
    cell: (rows, row) => rows.address(row, side),
  };
}
