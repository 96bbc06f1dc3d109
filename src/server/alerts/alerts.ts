/**
 * The collector's alerts: rules over result rows, points and incidents. The start and the end of an alert go to the log, to event listeners, to webhooks and to
 * /metrics, and are stored in the results.
 *
 * Rows are evaluated in the order of their epochs, each segment separately (alert-rows.ts). In a cluster, a worker evaluates the segments and points of its
 * partitions. When it gets a new partition, it starts with the alerts in the results and the rows since then, and so reaches the state that the previous worker
 * had.
 */
import { earlier, formatDuration } from "../../base/time.ts";
import type { CollectedSegment } from "../../collect/collector.ts";
import { isWhole } from "../../epoch/direction-label.ts";
import type { ResultsStore } from "../../results/results-store.ts";
import type { SegmentRow } from "../../results/rows.ts";
import type { Events } from "../events.ts";
import type { RowFollower } from "../monitor/follower.ts";
import { incidentJson, incidentLine, type ReportedIncident } from "../monitor/incident-json.ts";
import { SegmentChoice } from "../monitor/segment-choice.ts";
import { type Alert, type AlertRule, type AlertSettings, NO_ALERTS } from "./alert.ts";
import { AlertRows, isAbout } from "./alert-rows.ts";
import { QUANTITIES } from "./condition.ts";
import { type RuleSettings, RuleState } from "./rule.ts";
import { measuredIn } from "./values.ts";
import { Webhook, type WebhookCounts } from "./webhook.ts";

export interface AlertsOptions {
  results: ResultsStore;
  events: Events;
  settings: AlertSettings;
  /** When each point was last heard from, in ms since 1970. */
  heard: () => ReadonlyMap<string, number>;
  nowNs: () => bigint;
  /** How long an epoch waits for its other end, in ns (default 30 s). */
  latenessNs?: bigint | undefined;
  /** Set if several workers write to the results; rows are then read from the results. */
  shared?: SharedAlerts | undefined;
  onLog?: ((text: string) => void) | undefined;
}

export interface SharedAlerts {
  /** Returns whether this worker has the partition of a point. */
  owns: (point: string) => boolean;
  /** Returns whether this worker reports the incidents. */
  ownsPaths: () => boolean;
  /** How often the results are read, in ms (default 1000). */
  readMs?: number;
}

const MAX_TARGETS = 10_000;
const REMEMBERED = 1000;
const READ_MS = 1000;

interface Target {
  state: RuleState;
  alert: Alert | null;
  /** The point whose partition it belongs to. */
  owner: string;
}

export class Alerts implements RowFollower {
  readonly #options: AlertsOptions;
  #settings: AlertSettings = NO_ALERTS;
  #webhooks: Webhook[] = [];
  readonly #targets = new Map<string, Target>();
  #choices = new Map<string, SegmentChoice>();
  readonly #rows: AlertRows;
  /** The last alert of each rule and target, from the results. */
  #stored = new Map<string, Alert>();
  /** Alerts that have to be written to the results. */
  readonly #unwritten = new Map<string, Alert>();
  #readMs = 0;
  /** Alerts that have begun and not ended, by id. */
  readonly #active = new Map<string, Alert>();
  readonly counts = { began: 0, ended: 0 };

  private constructor(options: AlertsOptions) {
    this.#options = options;
    const { results, latenessNs, shared } = options;
    this.#rows = new AlertRows({
      ...{ results, latenessNs, owns: shared?.owns ?? (() => true) },
      rules: () => this.#settings.rules,
      activeSince: (segment) => this.#activeSince(segment),
    });
    this.#change(options.settings);
  }

  static async open(options: AlertsOptions): Promise<Alerts> {
    const alerts = new Alerts(options);
    await alerts.#readStored();
    for (const { body } of await options.results.alerts.list({ open: true, limit: REMEMBERED })) {
      const alert = JSON.parse(body) as Alert;
      if (!alerts.#ruleOf(alert)) alerts.#end(alert, options.nowNs());
      else if (!options.shared) alerts.#active.set(alert.id, alert);
    }
    if (!options.shared) await alerts.#rows.readFresh(async () => undefined);
    await alerts.#write();
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
      if (target.alert) this.#end(target.alert, this.#options.nowNs());
    }
    for (const alert of this.active) if (!stays.has(alert.name)) this.#end(alert, this.#options.nowNs());
    const gone = this.#change(settings);
    await this.#write();
    await Promise.all(gone.map((w) => w.close()));
  }

  async take(rows: readonly SegmentRow[]): Promise<void> {
    if (this.#options.shared || !this.#rows.areWanted) return;
    this.#rows.hold(rows);
    await this.#judge(this.#rows.release());
  }

  async #judge(rows: readonly SegmentRow[]): Promise<void> {
    const sorted = SegmentChoice.sort(rows);
    for (const rule of this.#settings.rules) {
      const { condition } = rule;
      if (condition.kind !== "threshold" || condition.quantity === "silent") continue;
      const choice = this.#choiceOf(rule.name);
      for (const row of sorted) {
        if (!isAbout(rule, row.segment) || !choice.accepts(row, rule.estimator ?? undefined, true)) continue;
        const { to } = row.segment;
        const target = targetOf(row.segment);
        const measured = measuredIn(row, condition.quantity);
        this.#push({ rule, target, owner: to }, measured, row.startNs, row.endNs);
      }
    }
    await this.#write();
  }

  async tick(): Promise<void> {
    const { shared } = this.#options;
    await this.#write();
    if (shared) this.#giveUp(shared);
    await this.#judgeSilent();
    if (!this.#rows.areWanted) return;
    if (!shared) return await this.#judge(this.#rows.release());
    if (performance.now() - this.#readMs < (shared.readMs ?? READ_MS)) return;
    this.#readMs = performance.now();
    await this.#rows.readFresh(() => this.#readStored());
    await this.#judge(await this.#rows.next());
  }

  /** Returns when the oldest active alert of a segment began; null without one. */
  #activeSince({ from, to, label }: CollectedSegment): bigint | null {
    const target = targetOf({ from, to, label });
    const began = [...this.#stored.values()].flatMap((alert) =>
      alert.state === "active" && alert.target === target ? [BigInt(alert.beganNs)] : [],
    );
    return began.length === 0 ? null : began.reduce(earlier);
  }

  /** Reads the alerts from the results: the newest of each rule and target. */
  async #readStored(): Promise<void> {
    const { alerts } = this.#options.results;
    const ended = await alerts.list({ open: false, limit: REMEMBERED });
    const active = await alerts.list({ open: true, limit: REMEMBERED });
    this.#stored = new Map();
    for (const { body } of [...active, ...ended]) {
      const alert = JSON.parse(body) as Alert;
      const key = keyOf(alert.name, alert.target);
      // Each list is newest first.
      if (!this.#stored.has(key)) this.#stored.set(key, alert);
    }
    for (const alert of this.#unwritten.values()) this.#stored.set(keyOf(alert.name, alert.target), alert);
  }

  /** Removes the state of partitions that another worker has now. */
  #giveUp({ owns, ownsPaths }: SharedAlerts): void {
    const gone = new Set<string>();
    for (const [key, { owner, alert }] of this.#targets) {
      if (owns(owner)) continue;
      gone.add(owner);
      this.#targets.delete(key);
      if (alert) this.#active.delete(alert.id);
    }
    const paths = ownsPaths();
    for (const { id, incident } of this.active) if (incident !== null && !paths) this.#active.delete(id);
    this.#rows.giveUp();
  }

  /** Checks the `silent` rules: points that have not been heard from. */
  async #judgeSilent(): Promise<void> {
    const nowNs = this.#options.nowNs();
    const rules = this.#settings.rules.filter(
      ({ condition }) => condition.kind === "threshold" && condition.quantity === "silent",
    );
    if (rules.length === 0) return;
    const judged = rules.flatMap((rule) =>
      [...this.#options.heard()].flatMap(([point, heardMs]) => {
        const { segment } = rule;
        if (segment && segment.from !== point && segment.to !== point) return [];
        return [{ rule, target: point, owner: point, silentNs: Number(nowNs) - heardMs * 1e6 }];
      }),
    );
    const isNew = ({ rule, target }: (typeof judged)[number]) => !this.#targets.has(keyOf(rule.name, target));
    if (this.#options.shared && judged.some(isNew)) await this.#readStored();
    for (const { silentNs, ...which } of judged)
      this.#push(which, { value: silentNs, low: silentNs, high: silentNs }, nowNs, nowNs);
    await this.#write();
  }

  /** Handles an incident that opened, changed or closed, or is reported again. */
  async incident(incident: ReportedIncident): Promise<void> {
    for (const rule of this.#settings.rules) {
      if (rule.condition.kind !== "incident" || (rule.segment && !isOf(rule.segment, incident))) continue;
      const id = `${rule.name}/${incident.id}`;
      const known = await this.#incidentAlert(id);
      if (known?.state === "ended") continue;
      if (incident.state === "closed") {
        if (known)
          this.#end({ ...known, incident: incidentJson(incident) }, incident.closedNs ?? incident.endNs);
      } else if (!known)
        this.#begin(rule, {
          ...{ id, target: incident.id, sinceNs: `${incident.startNs}`, beganNs: `${incident.endNs}` },
          ...{ worst: null, summary: incidentLine(incident), incident: incidentJson(incident) },
        });
    }
    await this.#write();
  }

  /** Returns an alert that this worker, or another one, has begun or ended. */
  async #incidentAlert(id: string): Promise<Alert | null> {
    const own = this.#unwritten.get(id) ?? this.#active.get(id);
    if (own) return own;
    const stored = await this.#options.results.alerts.find(id);
    const alert = stored && (JSON.parse(stored.body) as Alert);
    if (alert?.state === "active") this.#active.set(id, alert);
    return alert;
  }

  async close(): Promise<void> {
    await this.#write();
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

  #ruleOf({ name, when }: Alert): AlertRule | undefined {
    return this.#settings.rules.find((r) => r.name === name && r.when === when);
  }

  /**
   * Makes the state of a target that is evaluated for the first time. It continues from the target's last alert, so that an ended alert does not begin a second
   * time.
   */
  #newTarget(rule: AlertRule, settings: RuleSettings, target: string, owner: string): Target {
    const last = this.#stored.get(keyOf(rule.name, target));
    if (!last || !this.#ruleOf(last)) return { state: new RuleState(settings), alert: null, owner };
    if (last.state === "ended")
      return { state: new RuleState(settings, BigInt(last.endedNs ?? 0)), alert: null, owner };
    const active = { sinceNs: BigInt(last.sinceNs), worst: last.worst ?? 0 };
    this.#active.set(last.id, last);
    return { state: new RuleState(settings, BigInt(last.beganNs), active), alert: last, owner };
  }

  #push(
    { rule, target, owner }: { rule: AlertRule; target: string; owner: string },
    measured: ReturnType<typeof measuredIn>,
    startNs: bigint,
    endNs: bigint,
  ): void {
    const settings = thresholdOf(rule);
    if (!settings) return;
    const key = keyOf(rule.name, target);
    let known = this.#targets.get(key);
    if (!known) {
      if (this.#targets.size >= MAX_TARGETS) return;
      known = this.#newTarget(rule, settings, target, owner);
      this.#targets.set(key, known);
    }
    const change = known.state.push(measured, startNs, endNs);
    if (!change) return;
    if (change.change === "ended") {
      if (known.alert) this.#end({ ...known.alert, worst: change.worst }, change.atNs);
      known.alert = null;
      return;
    }
    const value =
      QUANTITIES[settings.condition.quantity] === "duration"
        ? formatDuration(change.worst)
        : `${(100 * change.worst).toFixed(2)} %`;
    known.alert = this.#begin(rule, {
      ...{ id: `${rule.name}/${target}/${change.sinceNs}`, target, sinceNs: `${change.sinceNs}` },
      ...{ beganNs: `${change.atNs}`, worst: change.worst, incident: null },
      summary: `${target}: ${rule.when} (${value})`,
    });
  }

  #begin(
    { name, when, to }: AlertRule,
    more: Pick<Alert, "id" | "target" | "sinceNs" | "beganNs" | "worst" | "summary" | "incident">,
  ): Alert {
    const alert: Alert = { format: "hoptime.alert/1", name, when, state: "active", endedNs: null, ...more };
    this.#active.set(alert.id, alert);
    this.counts.began++;
    this.#tell("began", alert, to);
    return alert;
  }

  #end(alert: Alert, atNs: bigint): void {
    this.#active.delete(alert.id);
    this.counts.ended++;
    const to = this.#settings.rules.find((r) => r.name === alert.name)?.to ?? [];
    this.#tell("ended", { ...alert, state: "ended", endedNs: `${atNs}` }, to);
  }

  #tell(change: "began" | "ended", alert: Alert, to: readonly string[]): void {
    this.#options.onLog?.(`alert ${alert.name} ${change}: ${alert.summary}`);
    const changed = { change, ...alert };
    this.#options.events.emit("alert", () => changed);
    for (const webhook of this.#webhooks) if (to.includes(webhook.name)) webhook.send({ change, ...alert });
    this.#stored.set(keyOf(alert.name, alert.target), alert);
    this.#unwritten.set(alert.id, alert);
  }

  /** Writes alerts to the results; what cannot be written is tried again next time. */
  async #write(): Promise<void> {
    for (const [id, alert] of this.#unwritten) {
      const { sinceNs, endedNs } = alert;
      await this.#options.results.alerts.write({
        ...{ id, startNs: BigInt(sinceNs), closedNs: endedNs === null ? null : BigInt(endedNs) },
        body: JSON.stringify(alert),
      });
      if (this.#unwritten.get(id) === alert) this.#unwritten.delete(id);
    }
  }

  #choiceOf(name: string): SegmentChoice {
    const known = this.#choices.get(name) ?? new SegmentChoice();
    this.#choices.set(name, known);
    return known;
  }
}

/** Names a rule and a target of it. */
const keyOf = (rule: string, target: string) => JSON.stringify([rule, target]);

function targetOf({ from, to, label }: CollectedSegment): string {
  return isWhole(label, from, to) ? `${from}:${to}` : `${from}:${to}=${label}`;
}

function thresholdOf({ condition, clear, forNs, clearAfterNs }: AlertRule): RuleSettings | null {
  if (condition.kind !== "threshold") return null;
  return { condition, clear: clear ?? condition.limit, forNs, clearAfterNs };
}

function sameRule(a: AlertRule | undefined, b: AlertRule): boolean {
  const text = (r: AlertRule) => JSON.stringify(r, (_, v: unknown) => (typeof v === "bigint" ? `${v}` : v));
  return a !== undefined && text(a) === text(b);
}

function isOf({ from, to }: CollectedSegment, { segment, candidates }: ReportedIncident): boolean {
  if (segment) return segment.from === from && segment.to === to;
  return candidates.some((c) => c.from === from && c.to === to);
}
