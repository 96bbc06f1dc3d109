/** Writes a comparison as metrics for node_exporter's textfile collector: https://prometheus.io/docs/instrumenting/exposition_formats/ */
import type { Latency, ReportView, SegmentReport } from "../../compare/report.ts";

interface Family {
  name: string;
  help: string;
  samples: { labels: Record<string, string>; value: number }[];
}

const COUNTS = [
  ["sent", "Packets seen where they are sent."],
  ["received", "Packets seen where they are received."],
  ["matched", "Packets seen at both points."],
  ["lost", "Packets lost between the points."],
  ["appeared", "Packets seen only where they are received."],
  ["duplicates", "Packets received more than once."],
  ["reordered", "Packets overtaken by later ones."],
] as const;

const DELAYS: readonly [field: keyof Latency, stat: string][] = [
  ["meanNs", "mean"],
  ["stdevNs", "stdev"],
  ["minNs", "min"],
  ["p50Ns", "p50"],
  ["p90Ns", "p90"],
  ["p99Ns", "p99"],
  ["p999Ns", "p99.9"],
  ["maxNs", "max"],
  ["jitterNs", "jitter"],
];

export function formatComparePrometheus(report: ReportView): string {
  const ways = [
    ["forward", report.segment],
    ["reverse", report.reverse],
  ] as const;
  const names = { before: report.before.file, after: report.after.file };
  const samples = (value: (segment: SegmentReport) => number | null, more: Record<string, string> = {}) =>
    ways.flatMap(([direction, segment]) => {
      const found = segment && value(segment);
      return found === null ? [] : [{ labels: { ...names, direction, ...more }, value: found }];
    });
  const families: Family[] = [
    ...COUNTS.map(([field, help]) => ({
      name: `hoptime_packets_${field}`,
      help,
      samples: samples((s) => s[field]),
    })),
    {
      name: "hoptime_loss_ratio",
      help: "Share of the packets that could have arrived and did not.",
      samples: samples((s) => s.lossRate),
    },
    {
      name: "hoptime_delay_seconds",
      help: "One-way delay.",
      samples: DELAYS.flatMap(([field, stat]) =>
        samples((s) => (s.latency?.[field] === undefined ? null : inSeconds(s.latency[field])), { stat }),
      ),
    },
    {
      name: "hoptime_clock_trusted",
      help: "1 where delays are good or usable, 0 where the clocks make them doubtful or unusable.",
      samples: [{ labels: { ...names, trust: report.clock.trust }, value: isTrusted(report) ? 1 : 0 }],
    },
    ...(report.before.lastNs === null
      ? []
      : [
          {
            name: "hoptime_last_packet_timestamp_seconds",
            help: "Time of the last packet of the first capture.",
            samples: [{ labels: names, value: Number(report.before.lastNs) / 1e9 }],
          },
        ]),
  ];
  return families
    .filter((f) => f.samples.length > 0)
    .map(formatFamily)
    .join("");
}

const inSeconds = (ns: number | null) => (ns === null ? null : ns / 1e9);

const isTrusted = ({ clock: { trust } }: ReportView) => trust === "good" || trust === "usable";

function formatFamily({ name, help, samples }: Family): string {
  const lines = samples.map(({ labels, value }) => {
    const list = Object.entries(labels).map(([label, text]) => `${label}="${labelText(text)}"`);
    return `${name}{${list.join(",")}} ${value}\n`;
  });
  return `# HELP ${name} ${help}\n# TYPE ${name} gauge\n${lines.join("")}`;
}

function labelText(text: string): string {
  return text.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");
}
