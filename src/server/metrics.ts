/**
 * Metrics for Prometheus, in base units (seconds, bytes). Labels are routes, points and segments, never flows. The number of series is bounded;
 * points and segments beyond the bound are only counted.
 */
import type { EpochLoss } from "../collect/epoch-losses.ts";
import { withoutSuperseded } from "../epoch/direction-label.ts";
import type { SegmentRow } from "../results/rows.ts";
import type { ClusterState } from "./cluster/cluster-part.ts";
import type { LatestRow } from "./latest-rows.ts";
import type { Parts } from "./routes/route.ts";
import type { TapState } from "./tap-states.ts";

/** Most points, and most segment-estimator pairs, with series of their own. */
const MAX_LABELLED = 1000;

interface Requests {
  count: number;
  seconds: number;
}

/** Requests answered, by route and status class. */
export class RequestMetrics {
  readonly #requests = new Map<string, Requests>();

  count(route: string, status: number, ms: number): void {
    const key = JSON.stringify([route, `${Math.floor(status / 100)}xx`]);
    const known = this.#requests.get(key) ?? { count: 0, seconds: 0 };
    this.#requests.set(key, { count: known.count + 1, seconds: known.seconds + ms / 1000 });
  }

  write(out: MetricSink): void {
    const rows = [...this.#requests].map(([key, sums]) => {
      const [route = "", status = ""] = JSON.parse(key) as string[];
      return { labels: { route, status }, sums };
    });
    out.add(
      "hoptime_http_requests_total",
      "counter",
      "HTTP requests answered",
      rows.map(({ labels, sums }) => [labels, sums.count]),
    );
    out.add(
      "hoptime_http_request_seconds_total",
      "counter",
      "time to answer them",
      rows.map(({ labels, sums }) => [labels, sums.seconds]),
    );
  }
}

export type Labels = Record<string, string>;

/** A receiver of metrics: Prometheus text here, OTLP in otlp.ts. */
export interface MetricSink {
  /** Skips null values, and a metric without any value. */
  add(
    name: string,
    type: "counter" | "gauge",
    help: string,
    values: readonly (readonly [Labels, number | null])[],
  ): void;
}

export class MetricText implements MetricSink {
  readonly #lines: string[] = [];

  add(
    name: string,
    type: "counter" | "gauge",
    help: string,
    values: readonly (readonly [Labels, number | null])[],
  ): void {
    const known = values.filter(
      (v): v is readonly [Labels, number] => v[1] !== null && Number.isFinite(v[1]),
    );
    if (known.length === 0) return;
    this.#lines.push(`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`);
    for (const [labels, value] of known) this.#lines.push(`${name}${labelText(labels)} ${value}`);
  }

  text(): string {
    return `${this.#lines.join("\n")}\n`;
  }
}

function labelText(labels: Labels): string {
  const parts = Object.entries(labels).map(
    ([name, value]) => `${name}="${value.replace(/[\\"\n]/g, (c) => (c === "\n" ? "\\n" : `\\${c}`))}"`,
  );
  return parts.length === 0 ? "" : `{${parts.join(",")}}`;
}

export function metricsText(parts: Parts, requests: RequestMetrics): string {
  const out = new MetricText();
  writeMetrics(out, parts, requests);
  return out.text();
}

export function writeMetrics(
  out: MetricSink,
  { service, network, alerts }: Parts,
  requests: RequestMetrics,
): void {
  const { counts, pairing } = service;
  const { stored, unchanged, replaced, merged, refused } = counts;
  const one = (value: number): [Labels, number][] => [[{}, value]];
  const outcomes = Object.entries({ stored, unchanged, replaced, merged, refused });
  out.add(
    "hoptime_records_total",
    "counter",
    "records received, by outcome",
    outcomes.map(([outcome, n]) => [{ outcome }, n]),
  );
  out.add("hoptime_messages_total", "counter", "messages of records", one(counts.messages));
  out.add("hoptime_message_bytes_total", "counter", "bytes of these messages, unpacked", one(counts.bytes));
  out.add("hoptime_questions_total", "counter", "questions about records", one(counts.questions));
  out.add(
    "hoptime_questions_failed_total",
    "counter",
    "of those, refused or ended",
    one(counts.failedQuestions),
  );
  out.add("hoptime_rows_total", "counter", "rows of epochs written", one(counts.rows));
  out.add("hoptime_epochs_total", "counter", "epochs, by outcome", [
    [{ state: "estimated" }, pairing.counts.estimated],
    [{ state: "missing" }, pairing.counts.missing],
    [{ state: "refused" }, pairing.counts.refused],
  ]);
  out.add(
    "hoptime_records_late_total",
    "counter",
    "records that came after the wait for their epoch had ended",
    one(pairing.counts.late),
  );
  out.add("hoptime_records_waiting", "gauge", "records that wait for their other end", one(pairing.waiting));
  out.add(
    "hoptime_segments_watched",
    "gauge",
    "segments whose results are kept",
    one(pairing.segments.length),
  );
  out.add("hoptime_event_listeners", "gauge", "clients that follow events", one(service.events.listeners));
  clusterMetrics(out, service.cluster);
  networkMetrics(out, network);
  alertMetrics(out, alerts);
  requests.write(out);
  tapMetrics(out, service.taps);
  segmentMetrics(out, service.latest);
  const { user, system } = process.cpuUsage();
  out.add("process_cpu_seconds_total", "counter", "CPU time", one((user + system) / 1e6));
  out.add("process_resident_memory_bytes", "gauge", "memory", one(process.memoryUsage.rss()));
  out.add(
    "process_start_time_seconds",
    "gauge",
    "when it was started",
    one(Date.now() / 1000 - process.uptime()),
  );
}

/** Metrics of a cluster worker. */
function clusterMetrics(out: MetricSink, cluster: ClusterState | null): void {
  if (!cluster) return;
  const { group } = cluster;
  const metric = (name: string, type: "counter" | "gauge", help: string, value: number) =>
    out.add(`hoptime_cluster_${name}`, type, help, [[{ group }, value]]);
  metric("workers", "gauge", "workers of the group that are alive", cluster.workers);
  metric("partitions_owned", "gauge", "partitions that this worker has", cluster.owned.length);
  metric("lag", "gauge", "messages of its partitions that have not been read", cluster.lag);
  metric("unacknowledged", "gauge", "messages that wait for their rows", cluster.unacknowledged);
  metric("acknowledged_total", "counter", "messages acknowledged", cluster.acknowledged);
  metric("copied_total", "counter", "records copied to other partitions", cluster.copied);
  metric("set_aside_total", "counter", "records that could not be used", cluster.setAside);
  metric("taken_over_total", "counter", "partitions taken over from another worker", cluster.takenOver);
  metric("lost_total", "counter", "partitions given up because their lease ended", cluster.lost);
}

function networkMetrics(out: MetricSink, network: Parts["network"]): void {
  const paths = network.describe().slice(0, MAX_LABELLED);
  const each = (value: (path: (typeof paths)[number]) => number | null) =>
    paths.map((p): [Labels, number | null] => [{ path: p.name }, value(p)]);
  out.add(
    "hoptime_path_delay_seconds",
    "gauge",
    "sum of the mean delays of the path's segments in the newest epoch that is complete",
    each((p) => (p.latency ? p.latency.meanNs / 1e9 : null)),
  );
  out.add(
    "hoptime_path_incidents",
    "gauge",
    "open incidents on the path",
    each((p) => p.incidents.length),
  );
  // A series has one value: of several incidents on a segment, the most certain one counts.
  const blamed = new Map<string, [Labels, number]>();
  for (const { segment, kind, confidence } of network.open) {
    if (!segment) continue;
    const { from, to } = segment;
    const key = JSON.stringify([from, to, kind]);
    blamed.set(key, [{ from, to, kind }, Math.max(confidence, blamed.get(key)?.[1] ?? 0)]);
  }
  out.add(
    "hoptime_segment_blamed",
    "gauge",
    "confidence of the open incident that blames this segment",
    [...blamed.values()].slice(0, MAX_LABELLED),
  );
}

function alertMetrics(out: MetricSink, alerts: Parts["alerts"]): void {
  const { active } = alerts;
  out.add(
    "hoptime_alerts_active",
    "gauge",
    "alerts that are active, by rule",
    alerts.rules
      .slice(0, MAX_LABELLED)
      .map(({ name }) => [{ alert: name }, active.filter((a) => a.name === name).length]),
  );
  const sent = alerts.webhooks.flatMap(({ name, counts }): [Labels, number][] =>
    Object.entries(counts).map(([outcome, n]) => [{ webhook: name, outcome }, n]),
  );
  out.add("hoptime_webhook_messages_total", "counter", "messages to webhooks, by outcome", sent);
  out.add(
    "hoptime_webhook_waiting",
    "gauge",
    "messages that wait",
    alerts.webhooks.map(({ name, waiting }) => [{ webhook: name }, waiting]),
  );
}

export function tapMetrics(out: MetricSink, taps: Record<string, TapState>): void {
  const all = Object.entries(taps).slice(0, MAX_LABELLED);
  const each = (value: (tap: TapState) => number | null) =>
    all.map(([point, tap]): [Labels, number | null] => [{ point }, value(tap)]);
  out.add(
    "hoptime_tap_heard_timestamp_seconds",
    "gauge",
    "time of the tap's last message",
    each((t) => t.heardMs / 1000),
  );
  out.add(
    "hoptime_tap_epoch_end_timestamp_seconds",
    "gauge",
    "end of its newest epoch",
    each((t) => Number(t.lastEndNs) / 1e9),
  );
  out.add(
    "hoptime_tap_records_total",
    "counter",
    "its records",
    each((t) => t.records),
  );
  out.add(
    "hoptime_tap_packets_total",
    "counter",
    "packets that it counted, each once",
    each((t) => t.packets),
  );
  out.add(
    "hoptime_tap_capture_dropped_total",
    "counter",
    "packets that its capture dropped, each once",
    each((t) => t.dropped),
  );
  out.add(
    "hoptime_tap_spool_records",
    "gauge",
    "records that wait at the tap",
    each((t) => t.spool?.waiting ?? null),
  );
  out.add(
    "hoptime_tap_spool_bytes",
    "gauge",
    "their bytes",
    each((t) => t.spool?.waitingBytes ?? null),
  );
  out.add(
    "hoptime_tap_records_dropped",
    "gauge",
    "records that the tap dropped because its spool was full",
    each((t) => t.spool?.dropped ?? null),
  );
  tapEffortMetrics(out, each);
}

/** What taps report about themselves in their records. */
function tapEffortMetrics(
  out: MetricSink,
  each: (value: (tap: TapState) => number | null) => [Labels, number | null][],
): void {
  out.add(
    "hoptime_tap_cpu_ratio",
    "gauge",
    "processors that observing took in its newest live epoch",
    each((t) => t.cpuShare),
  );
  out.add(
    "hoptime_tap_queue_records",
    "gauge",
    "records that waited in the tap when that epoch was sealed",
    each((t) => t.queue),
  );
  out.add(
    "hoptime_tap_clock_synchronised",
    "gauge",
    "1 where the clock of that epoch is synchronised",
    each((t) => (t.clock ? Number(t.clock.synchronised) : null)),
  );
  out.add(
    "hoptime_tap_clock_estimated_error_seconds",
    "gauge",
    "error of that clock, as its kernel estimates it",
    each((t) => (t.clock ? t.clock.estimatedErrorNs / 1e9 : null)),
  );
  out.add(
    "hoptime_tap_clock_maximum_error_seconds",
    "gauge",
    "the largest error that its kernel thinks possible",
    each((t) => (t.clock ? t.clock.maximumErrorNs / 1e9 : null)),
  );
}

function segmentMetrics(out: MetricSink, latest: Iterable<LatestRow>): void {
  const all = withoutSuperseded(
    [...latest].map((own) => ({ ...own, ...own.row.segment, lastNs: own.row.endNs })),
  );
  const rows = all.slice(0, MAX_LABELLED).map(({ row, loss }) => ({ row, loss: loss() }));
  const each = (value: (row: SegmentRow, loss: EpochLoss | null) => number | null) =>
    rows.map(({ row, loss }): [Labels, number | null] => {
      const { from, to, label } = row.segment;
      return [{ from, to, label, estimator: row.estimator }, value(row, loss)];
    });
  const mean = ({ state }: SegmentRow) => (state.weight > 0 ? state.meanNs / 1e9 : null);
  const side = ({ state }: SegmentRow, which: "Low" | "High", sign: 1 | -1) =>
    state.weight > 0
      ? (state.meanNs +
          (sign *
            (Math.hypot(state[`error${which}`], state[`repeating${which}`]) + state[`common${which}`])) /
            state.weight) /
        1e9
      : null;
  out.add("hoptime_segment_delay_seconds", "gauge", "mean one-way delay of the newest epoch", each(mean));
  out.add(
    "hoptime_segment_delay_low_seconds",
    "gauge",
    "lower end of its interval",
    each((r) => side(r, "Low", -1)),
  );
  out.add(
    "hoptime_segment_delay_high_seconds",
    "gauge",
    "upper end of its interval",
    each((r) => side(r, "High", 1)),
  );
  out.add(
    "hoptime_segment_loss_ratio",
    "gauge",
    "share of packets lost in the newest epoch, beyond what may be in flight at its end",
    each((r, loss) => (loss && r.sent ? loss.lost / r.sent : null)),
  );
  out.add(
    "hoptime_segment_packets",
    "gauge",
    "packets received in the newest epoch",
    each((r) => r.received),
  );
  out.add(
    "hoptime_segment_epoch_timestamp_seconds",
    "gauge",
    "end of the newest epoch",
    each((r) => Number(r.endNs) / 1e9),
  );
  out.add(
    "hoptime_segment_answered",
    "gauge",
    "1 where the newest epoch has an answer",
    each((r) => (r.state.weight > 0 ? 1 : 0)),
  );
  out.add(
    "hoptime_metrics_left_out",
    "gauge",
    "segments and estimators without series here: there are too many",
    [[{}, Math.max(0, all.length - MAX_LABELLED)]],
  );
}
