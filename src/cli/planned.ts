/**
 * A tap that follows its collector's plan (server/tap-plan.ts) for everything that the command line does not set. The last plan is stored next to the spool, so
 * that a tap can start while the collector is unreachable.
 */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { UsageError } from "../base/errors.ts";
import { networksOfLabels } from "../epoch/direction-label.ts";
import { askCollector } from "../server/client.ts";
import { NO_PLAN, PLAN_POLL_MS, planAt, type TapPlanState, type TapsPlan } from "../server/tap-plan.ts";
import type { Endpoint } from "../transport/http/collector-url.ts";
import { isNatsUrl, type NatsEndpoint } from "../transport/nats/nats-url.ts";
import { PlanReader } from "../transport/nats/plan-reader.ts";
import { warn } from "./output.ts";

/** The plan in the form of command line options. */
export interface PlannedFlags {
  estimators?: string;
  epoch?: string;
  key?: string;
  cover?: number;
  inner?: boolean;
  seed?: bigint;
  filter?: string;
  segment?: string[];
  [parameters: string]: unknown;
}

export class PlanFollower {
  readonly #asked: PlanSource;
  readonly #file: string;
  readonly #spool: string;
  #state: TapPlanState | null = null;

  constructor(endpoint: Endpoint & NatsEndpoint, spool: string) {
    this.#asked = isNatsUrl(endpoint.url) ? planInCluster(endpoint) : planOfCollector(endpoint);
    this.#file = join(spool, "plan.json");
    this.#spool = spool;
  }

  /** Returns the current plan; null if the collector has none. */
  async fetch(): Promise<TapsPlan | null> {
    try {
      this.#state = await this.#asked.plan();
      mkdirSync(this.#spool, { recursive: true });
      writeFileSync(this.#file, JSON.stringify(this.#state), { mode: 0o600 });
    } catch (error) {
      if (!(error instanceof UsageError) || !["no-records", "store-away"].includes(error.code)) throw error;
      const kept = this.#kept();
      warn(
        `hoptime: ${error.problem}; ${kept ? "its last plan is followed" : "observing as the options say"}`,
      );
      this.#state = kept;
    }
    return this.#state?.plan ?? null;
  }

  /** Returns the networks by which other points separate the two directions of their packets. */
  async networksOfOthers(point: string): Promise<string[][]> {
    const directions = await this.#asked.directions();
    return directions.filter((d) => d.point !== point).map(({ networks }) => networks);
  }

  /** Calls `change` when another plan takes effect. Returns a function that stops this. */
  watch(change: () => void, pollMs = PLAN_POLL_MS): () => void {
    let timer: NodeJS.Timeout | null = null;
    const look = async () => {
      const now = await this.#asked.plan().catch(() => null);
      const version = this.#state?.version ?? 0;
      if (now && now.version > version) return change();
      const waitMs = now?.next
        ? Math.max(0, Number(BigInt(now.next.fromNs) / 1_000_000n) - Date.now())
        : pollMs;
      // Close to the start of the next plan, waits exactly until then.
      if (now?.next && waitMs <= pollMs) timer = setTimeout(change, waitMs);
      else timer = setTimeout(() => void look(), pollMs);
    };
    timer = setTimeout(() => void look(), pollMs);
    return () => {
      if (timer) clearTimeout(timer);
    };
  }

  close(): Promise<void> {
    return this.#asked.close();
  }

  #kept(): TapPlanState | null {
    try {
      return JSON.parse(readFileSync(this.#file, "utf8")) as TapPlanState;
    } catch {
      return null;
    }
  }
}

/** Where the plan is read from. */
interface PlanSource {
  plan(): Promise<TapPlanState>;
  directions(): Promise<NonNullable<TapPlanState["directions"]>>;
  close(): Promise<void>;
}

function planOfCollector(endpoint: Endpoint): PlanSource {
  const plan = () => askCollector<TapPlanState>(endpoint, { method: "GET", path: "/v1/plan" });
  return { plan, directions: async () => (await plan()).directions ?? [], close: async () => undefined };
}

/** The plan in the cluster's bucket; directions come from the labels in its stream. */
function planInCluster(endpoint: NatsEndpoint): PlanSource {
  const reader = new PlanReader(endpoint);
  return {
    plan: async () => {
      const text = await reader.read();
      const state = text === null ? NO_PLAN : (JSON.parse(text) as TapPlanState);
      return planAt(state, BigInt(Date.now()) * 1_000_000n);
    },
    directions: async () =>
      [...(await reader.labels())].flatMap(([point, labels]) =>
        networksOfLabels(labels).map((networks) => ({ point, networks })),
      ),
    close: () => reader.close(),
  };
}

export function plannedFlags(plan: TapsPlan, point: string): PlannedFlags {
  const own = (plan.segments ?? []).filter((s) => s.filter && (s.from === point || s.to === point));
  const camel = (name: string) => name.replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase());
  return {
    estimators: plan.estimators.join(","),
    ...(plan.epoch === undefined ? {} : { epoch: plan.epoch }),
    ...(plan.key === undefined ? {} : { key: plan.key }),
    ...(plan.cover === undefined ? {} : { cover: plan.cover }),
    ...(plan.inner === undefined ? {} : { inner: plan.inner }),
    ...(plan.seed === undefined ? {} : { seed: BigInt(plan.seed) }),
    ...(plan.filter === undefined ? {} : { filter: plan.filter }),
    ...(own.length === 0 ? {} : { segment: own.map((s) => `${s.from}:${s.to}=${s.filter}`) }),
    ...Object.fromEntries(Object.entries(plan.parameters ?? {}).map(([name, text]) => [camel(name), text])),
  };
}
