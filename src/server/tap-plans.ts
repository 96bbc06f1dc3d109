/** The tap plan of one collector, or the one shared by the workers of a cluster, together with the directions found in the records' labels. */
import type { CollectedSegment } from "../collect/collector.ts";
import { networksOfLabels } from "../epoch/direction-label.ts";
import type { ClusterPart } from "./cluster/cluster-part.ts";
import type { Events } from "./events.ts";
import type { TapPlanState, TapPlanStore, TapsPlan } from "./tap-plan.ts";

export interface TapPlansOptions {
  store: TapPlanStore;
  cluster: Pick<ClusterPart, "sharePlan"> | undefined;
  events: Events;
  points: () => readonly string[];
  /** Labels of a point's records. */
  labelsOf: (point: string) => Iterable<string>;
  watch: (segment: CollectedSegment) => void;
}

export class TapPlans {
  readonly #options: TapPlansOptions;

  constructor(options: TapPlansOptions) {
    this.#options = options;
  }

  get segments(): readonly CollectedSegment[] {
    return this.#options.store.segments;
  }

  get state(): TapPlanState {
    const { store, points, labelsOf } = this.#options;
    const directions = points().flatMap((point) =>
      networksOfLabels([...labelsOf(point)]).map((networks) => ({ point, networks })),
    );
    return directions.length === 0 ? store.state : { ...store.state, directions };
  }

  async set(plan: TapsPlan): Promise<TapPlanState> {
    const { store, cluster } = this.#options;
    const state = await store.set(plan);
    await cluster?.sharePlan(state);
    this.#follow(state);
    return state;
  }

  /** Takes over the plan set at another worker, if it is newer. */
  async adopt(state: TapPlanState): Promise<void> {
    const { store } = this.#options;
    const { version, next } = store.state;
    if ((state.next?.version ?? state.version) <= (next?.version ?? version)) return;
    await store.adopt(state);
    this.#follow(store.state);
  }

  #follow(state: TapPlanState): void {
    const { events, watch } = this.#options;
    for (const segment of this.segments) watch(segment);
    events.emit("plan", () => state);
  }
}
