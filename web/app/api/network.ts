/**
 * Answers of a collector that knows its network: paths, incidents, coverage, alerts (src/server/routes/network.ts). Older collectors do not have these routes.
 */
import { useEffect, useState } from "preact/hooks";
import { hasRoute } from "./client.ts";
import type { MeanLatency } from "./types.ts";

interface Ends {
  from: string;
  to: string;
}

export interface Incident {
  id: string;
  kind: "delay" | "loss" | "clock";
  /** Points whose clock was stepped, and by how much. */
  clock?: { points: string[]; stepNs: number } | null;
  state: "open" | "closed";
  /** Null: undecided. */
  segment: Ends | null;
  paths: string[];
  startNs: string;
  endNs: string;
  closedNs: string | null;
  ended: "ordinary" | "new-normal" | null;
  /** In ns, or a share of packets lost. */
  baseline: number;
  peak: number;
  now: number | null;
  confidence: number;
  share: number | null;
  reason: string | null;
  candidates: (Ends & { confidence: number })[];
  /** The flows most affected, out of `flowCount`; older collectors do not count them. */
  flowCount?: number;
  flows: {
    flow: string;
    packets: number | null;
    lost: number | null;
    latency: MeanLatency | null;
    before: MeanLatency | null;
  }[];
}

/** Older collectors give no interval for paths. */
export interface PathLatency {
  meanNs: number;
  lowNs?: number | null;
  highNs?: number | null;
}

export interface NetworkPath {
  name: string;
  points: string[];
  estimator: string | null;
  latency: PathLatency | null;
  segments: (Ends & { latency: PathLatency | null; share: number | null; lossRate: number | null })[];
  incidents: string[];
}

export interface PointCoverage {
  point: string;
  label: string;
  estimator: string;
  expected: number;
  arrived: number;
  missing: number;
  late: number;
  duplicate: number;
  refused: number;
}

export interface Alert {
  id: string;
  name: string;
  when: string;
  state: "active" | "ended";
  target: string;
  sinceNs: string;
  beganNs: string;
  endedNs: string | null;
  worst: number | null;
  summary: string;
  /** The incident that the alert is about, with its state at that time. */
  incident?: Incident | null;
}

export interface AlertRule {
  name: string;
  when: string;
  segment: string | null;
  to: string[];
  active: number;
}

export interface Alerts {
  rules: AlertRule[];
  alerts: Alert[];
  notify: { name: string; waiting: number; sent: number; failed: number; dropped: number }[];
}

/** Returns whether the collector has a route; null until this is known. */
export function useRoute(path: string): boolean | null {
  const [has, setHas] = useState<boolean | null>(null);
  useEffect(() => {
    let gone = false;
    void hasRoute(path).then((known) => !gone && setHas(known));
    return () => {
      gone = true;
    };
  }, [path]);
  return has;
}
