/**
 * The tap plan: what every point must keep, set once at the collector (format hoptime.tap-plan/1). Taps fetch it at start and poll for changes. A
 * change takes effect at a future whole minute, so that all taps change at the same instant and between two epochs.
 */
import { existsSync, readFileSync } from "node:fs";
import { dirname } from "node:path";
import Type, { type Static } from "typebox";
import { publish, syncFolder, writeTemporary } from "../archive/durable.ts";
import { invalidValue, UsageError } from "../base/errors.ts";
import { Kernels } from "../base/kernels.ts";
import { checkedValue } from "../base/schema.ts";
import { parseDuration } from "../base/time.ts";
import { compileFilter } from "../capture/filter/filter.ts";
import { FlowKeySpec } from "../capture/flow/flow-key.ts";
import type { CollectedSegment } from "../collect/collector.ts";
import { checkName } from "../observe/observer.ts";
import { planTaps } from "../observe/plan.ts";

const NAME = Type.String({ minLength: 1, maxLength: 64 });
const TEXT = Type.String({ maxLength: 1000 });
const text = (description: string, maxLength = 1000) =>
  Type.Optional(Type.String({ maxLength, description }));
const point = (description: string) => Type.String({ minLength: 1, maxLength: 64, description });
/** The station's filters list every pair of networks that crosses a segment. */
const MAX_FILTER = 4000;
const PLANNED_SEGMENT = Type.Object(
  {
    from: point("sender"),
    to: point("receiver"),
    filter: text("packets that cross it; either all segments have a filter or none", MAX_FILTER),
  },
  { additionalProperties: false },
);
export const TAP_PLAN = Type.Object(
  {
    estimators: Type.Array(NAME, {
      minItems: 1,
      maxItems: 16,
      description: "estimators that taps keep (hoptime estimators lists them)",
    }),
    parameters: Type.Optional(
      Type.Record(NAME, TEXT, { description: "by estimator: `lds: rows=4,columns=1024`" }),
    ),
    epoch: text("a time that divides a minute, `1s` or `250ms`; or packets on average, `65536p`", 20),
    key: text("flow key (default: the 5-tuple)"),
    cover: Type.Optional(
      Type.Integer({
        minimum: 20,
        maximum: 1500,
        description: "bytes that packets are matched on, from the IP header on",
      }),
    ),
    inner: Type.Optional(Type.Boolean({ description: "the packet inside tunnels" })),
    seed: text("seed of hashes, a whole number below 2^64 as text", 20),
    filter: text("only these packets, at all points (pcap-filter expression)", MAX_FILTER),
    segments: Type.Optional(
      Type.Array(PLANNED_SEGMENT, {
        maxItems: 1000,
        description:
          "with filters, both ends keep records of these packets, labelled A:B; without, of all packets",
      }),
    ),
  },
  { additionalProperties: false },
);
export type TapsPlan = Static<typeof TAP_PLAN>;

export interface TapPlanState {
  format: "hoptime.tap-plan/1";
  /** Number of changes so far. */
  version: number;
  plan: TapsPlan | null;
  /** The announced plan and when it takes effect, ns since 1970. */
  next: { version: number; plan: TapsPlan; fromNs: string } | null;
  /**
   * Networks by which points separate the two directions of their packets: those of one side, from the labels of the records. Absent if no point
   * does.
   */
  directions?: { point: string; networks: string[] }[];
}

/** Longest interval at which taps poll: changes are announced well before they take effect. */
export const PLAN_POLL_MS = 10_000;
const NOTICE_NS = 30_000_000_000n;
const MINUTE_NS = 60_000_000_000n;

export const NO_PLAN: TapPlanState = { format: "hoptime.tap-plan/1", version: 0, plan: null, next: null };

export class TapPlanStore {
  readonly #path: string;
  readonly #now: () => bigint;
  #state = NO_PLAN;

  constructor(path: string, now: () => bigint = () => BigInt(Date.now()) * 1_000_000n) {
    this.#path = path;
    this.#now = now;
    if (existsSync(path)) this.#state = JSON.parse(readFileSync(path, "utf8")) as TapPlanState;
  }

  get state(): TapPlanState {
    this.#state = planAt(this.#state, this.#now());
    return this.#state;
  }

  /** Takes over the plan set at another worker of the cluster. */
  async adopt(state: TapPlanState): Promise<void> {
    this.#state = state;
    await this.#write();
  }

  /** Sets the plan. The first plan takes effect at once. Throws UsageError if taps could not follow it. */
  async set(plan: TapsPlan): Promise<TapPlanState> {
    checkTapPlan(plan);
    const { state } = this;
    const version = (state.next?.version ?? state.version) + 1;
    const earliest = this.#now() + NOTICE_NS;
    const fromNs = `${earliest - (earliest % MINUTE_NS) + MINUTE_NS}`;
    this.#state =
      state.plan === null ? { ...state, version, plan } : { ...state, next: { version, plan, fromNs } };
    await this.#write();
    return this.#state;
  }

  async #write(): Promise<void> {
    const folder = dirname(this.#path);
    await publish(
      await writeTemporary(folder, Buffer.from(`${JSON.stringify(this.#state, null, 2)}\n`)),
      this.#path,
      true,
    );
    await syncFolder(folder);
  }

  /** Segments of the current plan and of the announced one. */
  get segments(): CollectedSegment[] {
    const { plan, next } = this.state;
    return [plan, next?.plan ?? null]
      .flatMap((p) => p?.segments ?? [])
      .map(({ from, to, filter }) => ({ from, to, label: filter ? `${from}:${to}` : "" }));
  }
}

/** Returns the state at `nowNs`: the announced plan is in force once its time has come. */
export function planAt(state: TapPlanState, nowNs: bigint): TapPlanState {
  const { next } = state;
  if (!next || BigInt(next.fromNs) > nowNs) return state;
  return { ...state, version: next.version, plan: next.plan, next: null };
}

/** Validates every field of the plan, so that no tap fails on it. */
export function checkTapPlan(value: unknown): TapsPlan {
  const plan = checkedValue(TAP_PLAN, value, { source: "plan", code: "bad-question" });
  for (const name of Object.keys(plan.parameters ?? {}))
    if (!plan.estimators.includes(name))
      throw invalidValue("parameters", name, `one of ${plan.estimators.join(", ")}`, {
        code: "bad-question",
      });
  planTaps({ estimators: plan.estimators, ...(plan.parameters ? { parameters: plan.parameters } : {}) });
  FlowKeySpec.parse(plan.key);
  if (plan.seed !== undefined && (!/^\d+$/.test(plan.seed) || BigInt(plan.seed) >= 1n << 64n))
    throw invalidValue("seed", plan.seed, "a whole number below 2^64");
  checkEpoch(plan.epoch);
  const kernels = new Kernels();
  const filters = [plan.filter, ...(plan.segments ?? []).map((s) => s.filter)];
  for (const filter of filters) if (filter) compileFilter(filter, kernels).free();
  for (const { from, to } of plan.segments ?? []) {
    checkName("point", from);
    checkName("point", to);
    if (from === to)
      throw invalidValue("segments", `${from}:${to}`, "two different points", { code: "bad-question" });
  }
  const labelled = (plan.segments ?? []).filter((s) => s.filter).length;
  if (labelled > 0 && labelled < (plan.segments ?? []).length)
    throw new UsageError(
      "bad-question",
      "some segments have a filter and some do not",
      "give all of them a filter, or none",
      { parameter: "segments" },
    );
  return plan;
}

/** Plan changes fall on whole minutes, so epochs must divide a minute. */
function checkEpoch(epoch: string | undefined): void {
  if (epoch === undefined || /^\d+p$/.test(epoch)) return;
  const ns = parseDuration(epoch);
  if (!(ns >= 1000) || MINUTE_NS % BigInt(ns) !== 0n)
    throw invalidValue(
      "epoch",
      epoch,
      "a time that divides a minute, e.g. 1s or 250ms, or packets, e.g. 65536p",
      { code: "bad-time" },
    );
}
