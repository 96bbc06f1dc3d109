/**
 * Pushes metrics to an OpenTelemetry collector (OTLP/HTTP 1.x, JSON encoding): the same metrics as /metrics. Names lack the suffixes that
 * OpenTelemetry's own translation to Prometheus adds (`_total`, units), so both ways yield the same series. A failed push is not repeated; the next
 * one carries newer values. In this encoding, 64-bit integers are strings.
 */
import { readFileSync } from "node:fs";
import { hostname } from "node:os";
import { VERSION } from "../base/version.ts";
import type { Labels, MetricSink } from "./metrics.ts";

export interface OtlpOptions {
  url: string;
  intervalMs: number;
  timeoutMs: number;
  tokenFile?: string | undefined;
  /** Attributes beside service.name, service.version and host.name. */
  resource?: Readonly<Record<string, string>> | undefined;
}

const UNITS = [
  ["_timestamp_seconds", "_timestamp", "s"],
  ["_seconds", "", "s"],
  ["_bytes", "", "By"],
  ["_ratio", "", "1"],
] as const;

/** Example: `hoptime_tap_spool_bytes` becomes `hoptime_tap_spool` with unit `By`. */
export function otlpName(name: string): { name: string; unit: string } {
  const plain = name.replace(/_total$/, "");
  for (const [suffix, instead, unit] of UNITS)
    if (plain.endsWith(suffix)) return { name: plain.slice(0, -suffix.length) + instead, unit };
  return { name: plain, unit: "1" };
}

/** Collects metrics in the OTLP format. */
class OtlpMetrics implements MetricSink {
  readonly #metrics: unknown[] = [];
  readonly #startNs: string;
  readonly #nowNs: string;

  constructor(startNs: bigint, nowNs: bigint) {
    this.#startNs = `${startNs}`;
    this.#nowNs = `${nowNs}`;
  }

  add(
    full: string,
    type: "counter" | "gauge",
    description: string,
    values: readonly (readonly [Labels, number | null])[],
  ): void {
    const dataPoints = values.flatMap(([labels, asDouble]) =>
      asDouble === null || !Number.isFinite(asDouble)
        ? []
        : [
            {
              attributes: attributes(labels),
              ...(type === "counter" ? { startTimeUnixNano: this.#startNs } : {}),
              timeUnixNano: this.#nowNs,
              asDouble,
            },
          ],
    );
    if (dataPoints.length === 0) return;
    const data =
      type === "gauge"
        ? { gauge: { dataPoints } }
        : { sum: { aggregationTemporality: 2, isMonotonic: true, dataPoints } };
    this.#metrics.push({ ...otlpName(full), description, ...data });
  }

  request(resource: Readonly<Record<string, string>> = {}): Record<string, unknown> {
    const about = {
      "service.name": "hoptime",
      "service.version": VERSION,
      "host.name": hostname(),
      ...resource,
    };
    const scope = { name: "hoptime", version: VERSION };
    return {
      resourceMetrics: [
        { resource: { attributes: attributes(about) }, scopeMetrics: [{ scope, metrics: this.#metrics }] },
      ],
    };
  }
}

function attributes(values: Readonly<Record<string, string>>) {
  return Object.entries(values).map(([key, stringValue]) => ({ key, value: { stringValue } }));
}

export class OtlpPush {
  readonly counts = { pushed: 0, failed: 0 };
  readonly #options: OtlpOptions;
  readonly #write: (sink: MetricSink) => void;
  readonly #onLog: ((text: string) => void) | undefined;
  readonly #stop = new AbortController();
  readonly #startNs = nowNs();
  #timer: NodeJS.Timeout | null = null;
  #pushing: Promise<void> = Promise.resolve();
  #trouble: string | null = null;

  constructor(options: OtlpOptions, write: (sink: MetricSink) => void, onLog?: (text: string) => void) {
    this.#options = options;
    this.#write = write;
    this.#onLog = onLog;
    this.#schedule();
  }

  /** Pushes once more, so that the last values arrive. */
  async close(): Promise<void> {
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
    const limit = setTimeout(() => this.#stop.abort(), 2000);
    await this.#pushing;
    if (!this.#stop.signal.aborted) await this.push();
    clearTimeout(limit);
    this.#stop.abort();
  }

  async push(): Promise<void> {
    const { url, timeoutMs, tokenFile, resource } = this.#options;
    let why: string | null;
    try {
      const metrics = new OtlpMetrics(this.#startNs, nowNs());
      this.#write(metrics);
      const token = tokenFile === undefined ? null : readFileSync(tokenFile, "utf8").trim();
      const reply = await fetch(url, {
        method: "POST",
        body: JSON.stringify(metrics.request(resource)),
        headers: {
          "content-type": "application/json",
          ...(token ? { authorization: `Bearer ${token}` } : {}),
        },
        redirect: "error",
        signal: AbortSignal.any([AbortSignal.timeout(timeoutMs), this.#stop.signal]),
      });
      why = reply.ok ? rejected(await reply.text()) : `status ${reply.status}`;
    } catch (error) {
      const { name, cause } = error as Error & { cause?: NodeJS.ErrnoException };
      why = name === "TimeoutError" ? `no answer within ${timeoutMs} ms` : (cause?.code ?? name);
    }
    if (why === null) this.counts.pushed++;
    else this.counts.failed++;
    if (why !== this.#trouble)
      this.#onLog?.(why === null ? "OTLP: metrics are accepted again" : `OTLP: ${why}`);
    this.#trouble = why;
  }

  #schedule(): void {
    this.#timer = setTimeout(() => {
      this.#pushing = this.push().then(() => {
        if (this.#timer) this.#schedule();
      });
    }, this.#options.intervalMs);
    this.#timer.unref();
  }
}

/** Returns how many data points the server rejected (partial success), or null. */
function rejected(body: string): string | null {
  try {
    const { partialSuccess } = JSON.parse(body) as {
      partialSuccess?: { rejectedDataPoints?: string | number };
    };
    const n = Number(partialSuccess?.rejectedDataPoints ?? 0);
    return n > 0 ? `${n} data points were rejected` : null;
  } catch {
    // An empty body means full success.
    return null;
  }
}

function nowNs(): bigint {
  return BigInt(Date.now()) * 1_000_000n;
}
