/**
 * The collector's alerts: rules over result rows, points and incidents. The start and the end of an alert go to the log, to event listeners, to
 * webhooks and to /metrics, and are stored in the results.
 */
import { formatDuration } from "../../base/time.ts";
import type { CollectedSegment } from "../../collect/collector.ts";
import { isWhole } from "../../epoch/direction-label.ts";
import type { ResultsStore } from "../../results/results-store.ts";
import type { SegmentRow } from "../../results/rows.ts";
import type { Events } from "../events.ts";
import type { RowFollower } from "../monitor/follower.ts";
import { incidentJson, incidentLine, type ReportedIncident } from "../monitor/incident-json.ts";
import { SegmentChoice } from "../monitor/segment-choice.ts";
import { type Condition, QUANTITIES } from "./condition.ts";
import { type RuleSettings, RuleState } from "./rule.ts";
import { measuredIn } from "./values.ts";
import { Webhook, type WebhookCounts, type WebhookOptions } from "./webhook.ts";

export interface AlertRule {
  name: string;
  /** The condition as written in the configuration. */
  when: string;
  condition: Condition;
  clear: number | null;
  segment: CollectedSegment | null;
  estimator: string | null;
  forNs: bigint;
  clearAfterNs: bigint;
  to: readonly string[];
}

export interface AlertSettings {
  rules: readonly AlertRule[];
  notify: readonly Omit<WebhookOptions, "onLog">[];
}

export const NO_ALERTS: AlertSettings = { rules: [], notify: [] };

/** An alert as it appears in answers and webhook messages (format hoptime.alert/1). */
export interface Alert {
  format: "hoptime.alert/1";
  id: string;
  name: string;
  when: string;
  state: "active" | "ended";
  /** `A:B`, a point, or the id of an incident. */
  target: string;
  /** When the condition first held, when the alert began and when it ended, in ns since 1970. */
  sinceNs: string;
  beganNs: string;
  endedNs: string | null;
  /** The worst value so far: a delay in ns or a share from 0 to 1. Null for incidents. */
  worst: number | null;
  summary: string;
  incident: unknown;
}

export interface AlertsOptions {
  results: ResultsStore;
  events: Events;
  settings: AlertSettings;
  /** When each point was last heard from, in ms since 1970. */
  heard: () => ReadonlyMap<string, number>;
  nowNs: () => bigint;
  onLog?: ((text: string) => void) | undefined;
}

const MAX_TARGETS = 10_000;
const REMEMBERED = 1000;

interface Target {
  state: RuleState;
  alert: Alert | null;
}

export class Alerts implements RowFollower {
  readonly #options: AlertsOptions;
  #settings: AlertSettings = NO_ALERTS;
  #webhooks: Webhook[] = [];
  readonly #targets = new Map<string, Target>();
  readonly #choices = new Map<string, SegmentChoice>();
  /** Alerts that have begun and not ended, by id. */
  readonly #active = new Map<string, Alert>();
  readonly counts = { began: 0, ended: 0 };

  private constructor(options: AlertsOptions) {
    this.#options = options;
    this.#change(options.settings);
  }

  static async open(options: AlertsOptions): Promise<Alerts> {
    const alerts = new Alerts(options);
    // After a restart, old rows arrive again: an alert that has ended must not begin a second time.
    for (const { body } of await options.results.alerts.list({ open: false, limit: REMEMBERED }))
      alerts.#remember(JSON.parse(body) as Alert);
    for (const { body } of await options.results.alerts.list({ open: true, limit: REMEMBERED }))
      await alerts.#resume(JSON.parse(body) as Alert);
    return alerts;
  }

  get active(): Alert[] {
    return [...this.#active.values()];
  }

  get rules(): readonly AlertRule[] {
    return this.#settings.rules;
  }

  get webhooks(): { name: string; waiting: number; counts: WebhookCounts }[] {
    return this.#webhooks.map(({ name, waiting, counts }) => ({ name, waiting, counts }));
  }

  /** Replaces the rules. Alerts of removed rules end, and their webhooks are notified before they close; alerts of unchanged rules continue. */
  async reconfigure(settings: AlertSettings): Promise<void> {
    const before = new Map(this.#settings.rules.map((r) => [r.name, r]));
    const stays = new Set(settings.rules.filter((r) => sameRule(before.get(r.name), r)).map((r) => r.name));
    for (const [key, target] of this.#targets) {
      const [name = ""] = JSON.parse(key) as string[];
      if (stays.has(name)) continue;
      this.#targets.delete(key);
      if (target.alert) await this.#end(target.alert, this.#options.nowNs());
    }
    for (const alert of this.active)
      if (!stays.has(alert.name)) await this.#end(alert, this.#options.nowNs());
    const gone = this.#change(settings);
    await Promise.all(gone.map((w) => w.close()));
  }

  async take(rows: readonly SegmentRow[]): Promise<void> {
    const sorted = SegmentChoice.sort(rows);
    for (const rule of this.#settings.rules) {
      const { condition } = rule;
      if (condition.kind !== "threshold" || condition.quantity === "silent") continue;
      const choice = this.#choiceOf(rule.name);
      for (const row of sorted) {
        if (!isAbout(rule, row.segment) || !choice.accepts(row, rule.estimator ?? undefined, true)) continue;
        const { from, to, label } = row.segment;
        const target = isWhole(label, from, to) ? `${from}:${to}` : `${from}:${to}=${label}`;
        await this.#push(rule, target, measuredIn(row, condition.quantity), row.startNs, row.endNs);
      }
    }
  }

  /** Checks the `silent` rules: points that have not been heard from. */
  async tick(): Promise<void> {
    const nowNs = this.#options.nowNs();
    for (const rule of this.#settings.rules) {
      const { condition } = rule;
      if (condition.kind !== "threshold" || condition.quantity !== "silent") continue;
      for (const [point, heardMs] of this.#options.heard()) {
        const { segment } = rule;
        if (segment && segment.from !== point && segment.to !== point) continue;
        const silentNs = Number(nowNs) - heardMs * 1e6;
        await this.#push(rule, point, { value: silentNs, low: silentNs, high: silentNs }, nowNs, nowNs);
      }
    }
  }

  /** Handles an incident that opened, changed or closed. */
  async incident(change: "opened" | "updated" | "closed", incident: ReportedIncident): Promise<void> {
    for (const rule of this.#settings.rules) {
      if (rule.condition.kind !== "incident" || (rule.segment && !isOf(rule.segment, incident))) continue;
      const id = `${rule.name}/${incident.id}`;
      const known = this.#active.get(id);
      if (change === "closed") {
        if (known)
          await this.#end(
            { ...known, incident: incidentJson(incident) },
            incident.closedNs ?? incident.endNs,
          );
      } else if (!known)
        await this.#begin(rule, {
          ...{ id, target: incident.id, sinceNs: `${incident.startNs}`, beganNs: `${incident.endNs}` },
          ...{ worst: null, summary: incidentLine(incident), incident: incidentJson(incident) },
        });
    }
  }

  async close(): Promise<void> {
    await Promise.all(this.#webhooks.map((w) => w.close()));
  }

  /** Sets rules and webhooks. A webhook whose settings are unchanged keeps its queue. Returns the removed webhooks. */
  #change(settings: AlertSettings): Webhook[] {
    const { onLog } = this.#options;
    const before = new Set(this.#webhooks);
    this.#webhooks = settings.notify.map((receiver) => {
      const same = this.#webhooks.find((w) => w.isOf(receiver));
      if (same) before.delete(same);
      return same ?? new Webhook({ ...receiver, onLog });
    });
    this.#settings = settings;
    return [...before];
  }

  #remember({ name, when, target, endedNs }: Alert): void {
    const rule = this.#settings.rules.find((r) => r.name === name && r.when === when);
    const settings = rule && thresholdOf(rule);
    const key = JSON.stringify([name, target]);
    // The list is newest first, so only the first entry of a target counts.
    if (!settings || this.#targets.has(key)) return;
    this.#targets.set(key, { state: new RuleState(settings, BigInt(endedNs ?? 0)), alert: null });
  }

  async #resume(alert: Alert): Promise<void> {
    const rule = this.#settings.rules.find((r) => r.name === alert.name && r.when === alert.when);
    if (!rule) return await this.#end(alert, this.#options.nowNs());
    this.#active.set(alert.id, alert);
    const settings = thresholdOf(rule);
    if (!settings) return;
    const { sinceNs, beganNs, worst } = alert;
    const active = { sinceNs: BigInt(sinceNs), worst: worst ?? 0 };
    this.#targets.set(JSON.stringify([rule.name, alert.target]), {
      state: new RuleState(settings, BigInt(beganNs), active),
      alert,
    });
  }

  async #push(
    rule: AlertRule,
    target: string,
    measured: ReturnType<typeof measuredIn>,
    startNs: bigint,
    endNs: bigint,
  ): Promise<void> {
    const settings = thresholdOf(rule);
    if (!settings) return;
    const key = JSON.stringify([rule.name, target]);
    let known = this.#targets.get(key);
    if (!known) {
      if (this.#targets.size >= MAX_TARGETS) return;
      known = { state: new RuleState(settings), alert: null };
      this.#targets.set(key, known);
    }
    const change = known.state.push(measured, startNs, endNs);
    if (!change) return;
    if (change.change === "ended") {
      if (known.alert) await this.#end({ ...known.alert, worst: change.worst }, change.atNs);
      known.alert = null;
      return;
    }
    const value =
      QUANTITIES[settings.condition.quantity] === "duration"
        ? formatDuration(change.worst)
        : `${(100 * change.worst).toFixed(2)} %`;
    known.alert = await this.#begin(rule, {
      ...{ id: `${rule.name}/${target}/${change.sinceNs}`, target, sinceNs: `${change.sinceNs}` },
      ...{ beganNs: `${change.atNs}`, worst: change.worst, incident: null },
      summary: `${target}: ${rule.when} (${value})`,
    });
  }

  async #begin(
    { name, when, to }: AlertRule,
    more: Pick<Alert, "id" | "target" | "sinceNs" | "beganNs" | "worst" | "summary" | "incident">,
  ): Promise<Alert> {
    const alert: Alert = { format: "hoptime.alert/1", name, when, state: "active", endedNs: null, ...more };
    this.#active.set(alert.id, alert);
    this.counts.began++;
    await this.#tell("began", alert, to);
    return alert;
  }

  async #end(alert: Alert, atNs: bigint): Promise<void> {
    this.#active.delete(alert.id);
    this.counts.ended++;
    const to = this.#settings.rules.find((r) => r.name === alert.name)?.to ?? [];
    await this.#tell("ended", { ...alert, state: "ended", endedNs: `${atNs}` }, to);
  }

  async #tell(change: "began" | "ended", alert: Alert, to: readonly string[]): Promise<void> {
    const { id, sinceNs, endedNs } = alert;
    this.#options.onLog?.(`alert ${alert.name} ${change}: ${alert.summary}`);
    const changed = { change, ...alert };
    this.#options.events.emit("alert", () => changed);
    for (const webhook of this.#webhooks) if (to.includes(webhook.name)) webhook.send({ change, ...alert });
    await this.#options.results.alerts.write({
      ...{ id, startNs: BigInt(sinceNs), closedNs: endedNs === null ? null : BigInt(endedNs) },
      body: JSON.stringify(alert),
    });
  }

  #choiceOf(name: string): SegmentChoice {
    const known = this.#choices.get(name) ?? new SegmentChoice();
    this.#choices.set(name, known);
    return known;
  }
}

function thresholdOf({ condition, clear, forNs, clearAfterNs }: AlertRule): RuleSettings | null {
  if (condition.kind !== "threshold") return null;
  return { condition, clear: clear ?? condition.limit, forNs, clearAfterNs };
}

function sameRule(a: AlertRule | undefined, b: AlertRule): boolean {
  const text = (r: AlertRule) => JSON.stringify(r, (_, v: unknown) => (typeof v === "bigint" ? `${v}` : v));
  return a !== undefined && text(a) === text(b);
}

function isAbout({ segment }: AlertRule, { from, to, label }: CollectedSegment): boolean {
  if (!segment) return true;
  if (segment.from !== from || segment.to !== to) return false;
  return segment.label === "" ? isWhole(label, from, to) : label === segment.label;
}

function isOf({ from, to }: CollectedSegment, { segment, candidates }: ReportedIncident): boolean {
  if (segment) return segment.from === from && segment.to === to;
  return candidates.some((c) => c.from === from && c.to === to);
}
