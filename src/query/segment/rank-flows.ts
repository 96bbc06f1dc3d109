/**
 * Finds the groups with the most packets from the flow lists alone: one list per epoch, the sender's if it has one. If a list contains only an
 * epoch's heaviest flows, packet counts are known only within bounds. Then more groups than asked for are kept, and all epochs are asked about them
 * by name, even those whose list leaves them out.
 */
import { FlowLists } from "../../collect/flow-lists.ts";
import type { RecordHandle } from "../../collect/record-handle.ts";
import { sealed } from "../../epoch/merge.ts";
import { type Estimator, type KnownFlows, readsVersion } from "../../estimators/estimator.ts";
import { KEY_WORDS } from "../../estimators/flow-keys.ts";
import { parseParameters } from "../../estimators/parameters.ts";
import { FlowGroups, isFlowKey } from "./groups.ts";
import type { Question } from "./question.ts";
import { FlowRanking, NO_RANKING, type Wanted } from "./top-flows.ts";

/** Fewer packets than this are not ranked, because ranking reads every list once more. */
const FEW_FLOWS = 20_000;
/** Candidates per requested flow, and their minimum number, if packet counts are known only within bounds. */
const CANDIDATES = 4;
const MIN_CANDIDATES = 64;

export interface RankedFlows {
  wanted: Wanted;
  /** Key words of the heaviest flows, by the key that distinguished them; empty if the lists name them. */
  named: Map<string, Uint32Array[]>;
}

const UNRANKED: RankedFlows = { wanted: NO_RANKING, named: new Map() };

export function rankFlows(
  handles: readonly RecordHandle[],
  question: Question,
  table: readonly Estimator[],
): RankedFlows {
  const { top, flows, group } = question;
  if (top === undefined || flows !== undefined || top >= Number.MAX_SAFE_INTEGER) return UNRANKED;
  const lists = new EpochLists(handles, question, table);
  if (lists.empty) return UNRANKED;
  const ranking = new FlowRanking();
  const groups = new Map<string, FlowGroups>();
  const groupsOf = (key: string) => {
    const by = groups.get(key) ?? new FlowGroups(key, group);
    groups.set(key, by);
    return by;
  };
  let partial = false;
  for (const { key, listed } of lists.all()) {
    if (listed.heavy && !listed.complete) partial = true;
    for (let i = 0; i < listed.count; i++) {
      const name = groupsOf(key).find(listed, i, null);
      if (name) ranking.add(name.words, packetsOf(listed, i));
    }
  }
  if (ranking.size === 0) return UNRANKED;
  const kept = partial ? Math.max(CANDIDATES * top, MIN_CANDIDATES) : top;
  const wanted = ranking.top(kept);
  if (!partial || group !== undefined) return { wanted, named: new Map() };
  const found = new Map<string, Map<string, Uint32Array>>();
  for (const { key, listed } of lists.all()) {
    const own = found.get(key) ?? new Map<string, Uint32Array>();
    found.set(key, own);
    for (let i = 0; i < listed.count; i++) {
      const words = listed.keyWords.subarray(KEY_WORDS * i, KEY_WORDS * (i + 1));
      const name = groupsOf(key).groupOf(words);
      if (wanted.has(name.words) && !own.has(name.name) && own.size < 2 * kept)
        own.set(name.name, words.slice());
    }
  }
  return { wanted, named: new Map([...found].map(([key, own]) => [key, [...own.values()]])) };
}

/** Returns which flows of an epoch need answers. `key`: the key by which most records distinguish flows; null if the question is not about flows. */
export function askedFlows(
  { flows: named, group }: Question,
  key: string | null,
  wanted: Wanted,
): (flows: KnownFlows, key: string) => Uint8Array | null {
  if (key === null) return ({ count }) => new Uint8Array(count);
  if (named !== undefined || wanted === NO_RANKING) return () => null;
  const groups = new FlowGroups(key, group);
  return (flows, own) => {
    if (!groups.covers(own)) return null;
    const asked = new Uint8Array(flows.count);
    for (let i = 0; i < flows.count; i++) {
      const found = groups.find(flows, i, null);
      if (found && wanted.has(found.words)) asked[i] = 1;
    }
    return asked;
  };
}

/** The most likely packet count, as far as the list shows. */
function packetsOf({ packets, heavy }: KnownFlows, i: number): number {
  const known = packets[i] ?? Number.NaN;
  if (!Number.isNaN(known)) return Math.max(1, known);
  return heavy ? Math.max(1, ((heavy.low[i] ?? 0) + (heavy.high[i] ?? 0)) / 2) : 1;
}

/** One flow list per epoch: a complete one, or else the heavy flows found by a sketch. */
class EpochLists {
  readonly #whole: readonly RecordHandle[];
  readonly #heavy: readonly RecordHandle[];
  readonly #between: Question["between"];
  readonly #table: readonly Estimator[];

  constructor(handles: readonly RecordHandle[], { between }: Question, table: readonly Estimator[]) {
    const named = (heavyOnly: boolean) =>
      new Set(
        table.filter((e) => e.flowList && (e.flowList.heavyOnly ?? false) === heavyOnly).map((e) => e.name),
      );
    const [whole, heavy] = [named(false), named(true)];
    this.#whole = handles.filter((h) => whole.has(h.estimator));
    this.#heavy = handles.filter((h) => heavy.has(h.estimator));
    this.#between = between;
    this.#table = table;
  }

  /** Nothing to rank, or too few packets to make many flows. */
  get empty(): boolean {
    return this.#heavy.length === 0 && this.#whole.reduce((n, h) => n + h.packets, 0) <= FEW_FLOWS;
  }

  *all(): Generator<{ key: string; listed: KnownFlows }> {
    const done = new Set<string>();
    const lists = new FlowLists(this.#table);
    for (const handle of this.#whole) lists.add(handle);
    for (const handles of [this.#whole, this.#heavy])
      for (const point of this.#between) {
        for (const handle of handles) {
          if (handle.point !== point || !isFlowKey(handle.key)) continue;
          const { mode, startNs, endNs, startId } = handle.epoch;
          const epoch = `${mode}/${startNs}/${endNs}/${startId}`;
          if (done.has(epoch)) continue;
          const listed = handles === this.#whole ? this.#read(handle, lists) : this.#readHeavy(handle);
          // MAPLE without an index names no flows; the epoch's heavy flows may still come from a sketch.
          if (!listed || (listed.count === 0 && !listed.complete)) continue;
          done.add(epoch);
          yield { key: handle.key, listed };
        }
      }
  }

  /** Reads a list. An unreadable one is skipped; its epoch is reported when it is asked. */
  #read(handle: RecordHandle, lists: FlowLists): KnownFlows | null {
    try {
      return lists.of([handle], handle.read());
    } catch {
      return null;
    }
  }

  #readHeavy(handle: RecordHandle): KnownFlows | null {
    const estimator = this.#table.find((e) => e.name === handle.estimator);
    try {
      const record = handle.read();
      if (!estimator?.flowList || record.void !== null || !readsVersion(estimator, record.payloadVersion))
        return null;
      return estimator.flowList.read(sealed(record), parseParameters(estimator, record.parameters));
    } catch {
      return null;
    }
  }
}
