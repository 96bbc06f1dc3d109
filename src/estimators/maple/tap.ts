/**
 * MAPLE's tap: adds rows with a delay to an epoch's store.
 *
 *   ribbon (default)   keeps the epoch's packets in a buffer of fixed capacity; sealing chooses centres from their delays and builds
 *                      the stores and the list of flows. Memory: tapBytes(); on overload, packets are dropped and counted.
 *   svbf, comb, …      as in the paper: centres come from the pipeline (two epochs behind), packets go into the filters as they arrive
 */
import type { Kernels } from "../../base/kernels.ts";
import { Random } from "../../base/random.ts";
import { BATCH_ROWS, type PacketBatch } from "../../capture/batch.ts";
import type { SealedEpoch, Tap, TapContext } from "../estimator.ts";
import { encodeCells } from "./cell-section.ts";
import { CellTable, histogramOf } from "./cell-table.ts";
import type { Centres } from "./centres/centres.ts";
import { epochCentres, pairedCentres } from "./centres/epoch-centres.ts";
import { CentrePipeline } from "./centres/pipeline.ts";
import { EpochBuffer } from "./epoch-buffer.ts";
import { DELAY_FLOWS_PER_BUCKET } from "./flow-delays.ts";
import { FLOWS_PER_BUCKET } from "./flow-index.ts";
import { type Identity, storeSeed } from "./identity.ts";
import { geometryOf, identitiesOf, type MapleParameters, nsPerByteOf, tapBytes } from "./parameters.ts";
import { encodePart, encodePayload, type PartContents } from "./payload.ts";
import { MixedStore } from "./stores/mixed.ts";
import { createStore } from "./stores/open.ts";
import { isBuilt, type PacketStore, type StoreGeometry } from "./stores/packet-store.ts";
import { RibbonStore } from "./stores/ribbon.ts";

const PACKETS_PER_GROUP = 16;
const MIN_GROUPS = 8;

/** An epoch of a streaming store, which takes packets as they arrive. */
interface Streaming {
  pipeline: CentrePipeline;
  cells: CellTable;
  stores: Map<Identity, PacketStore>;
}

export class MapleTap implements Tap {
  readonly memoryBytes: number;
  readonly #kernels: Kernels;
  readonly #parameters: MapleParameters;
  readonly #seed: bigint;
  readonly #buffer: EpochBuffer;
  readonly #nsPerByte: number;
  /** Learns centres; null if each epoch has its own. */
  readonly #pipeline: CentrePipeline | null;
  #streaming: Streaming | null = null;
  #codes = 0;

  constructor(context: TapContext, parameters: MapleParameters) {
    this.#kernels = context.kernels;
    this.#parameters = parameters;
    this.#seed = context.seed;
    this.memoryBytes = tapBytes(parameters, BATCH_ROWS);
    this.#nsPerByte = nsPerByteOf(parameters);
    const built = isBuilt(parameters.store);
    const capacity = built ? parameters.capacity : BATCH_ROWS;
    this.#buffer = new EpochBuffer(
      context.kernels,
      capacity,
      parameters.index === "false" ? 0 : parameters.flows,
      this.#nsPerByte,
    );
    const { centres } = parameters;
    this.#pipeline =
      centres === "exact"
        ? null
        : new CentrePipeline({
            strategy: centres,
            k: parameters.k,
            range: { lowNs: parameters.low, highNs: parameters.high },
            sampling: parameters.sampling,
            expected: parameters.capacity,
            random: new Random(`maple ${context.seed}`),
          });
    if (!built) this.#codes = context.kernels.alloc(BATCH_ROWS * 2);
  }

  /** Times do not enter the store: a packet is looked up by its identity within an epoch. */
  begin(): void {
    this.#buffer.begin();
    if (isBuilt(this.#parameters.store)) return;
    this.#dropStores();
    if (this.#pipeline) this.#open(this.#pipeline);
  }

  update(batch: PacketBatch, from: number, to: number): void {
    if (isBuilt(this.#parameters.store)) {
      this.#buffer.append(batch, from, to);
      return;
    }
    if (!this.#streaming) this.begin();
    for (let at = from; at < to; at += BATCH_ROWS) {
      this.#buffer.append(batch, at, Math.min(to, at + BATCH_ROWS));
      if (this.#streaming) this.#stream(this.#streaming);
    }
  }

  seal(): SealedEpoch {
    const sealed = isBuilt(this.#parameters.store) ? this.#build() : this.#close();
    this.#pipeline?.endEpoch();
    this.#buffer.begin();
    return sealed;
  }

  free(): void {
    this.#dropStores();
    this.#buffer.free();
    if (this.#codes !== 0) this.#kernels.free(this.#codes);
  }

  /** Records that list keys, and streaming stores, keep their original layout. */
  get #compact(): boolean {
    return isBuilt(this.#parameters.store) && this.#parameters.index !== "true";
  }

  #columnOf(identity: Identity): number {
    return identity === "digest" ? this.#buffer.digests : this.#buffer.flowKeys;
  }

  /** Ends the epoch: chooses centres, assigns codes, builds stores. */
  #build(): SealedEpoch {
    const kernels = this.#kernels;
    const buffer = this.#buffer;
    const count = buffer.count;
    if (count === 0) return this.#sealed({}, 0);
    this.#pipeline?.observe(kernels.f64.subarray(buffer.delays >>> 3, (buffer.delays >>> 3) + count));
    const cells = new CellTable(kernels, this.#epochCentres(count));
    const codes = kernels.alloc(2 * count);
    try {
      cells.assign(buffer.delays, codes, count);
      const sections: PartContents["sections"] = {
        cells: encodeCells(cells.sums(), this.#compact, buffer.totals().baseNs),
      };
      for (const identity of identitiesOf(this.#parameters)) {
        const geometry = geometryOf(this.#parameters, cells.groups, storeSeed(this.#seed, identity));
        const store = this.#storeOf(geometry, this.#columnOf(identity), codes, count);
        sections[identity] = store.body();
        store.free();
      }
      if (this.#parameters.index === "true") sections.index = buffer.flowIndex(FLOWS_PER_BUCKET);
      else if (this.#parameters.index === "delays")
        sections.index = buffer.flowDelays(codes, cells.groups, DELAY_FLOWS_PER_BUCKET);
      return this.#sealed(sections, cells.groups);
    } finally {
      // Also if memory ran out before.
      kernels.free(codes);
      cells.free();
    }
  }

  #storeOf(geometry: StoreGeometry, keys: number, codes: number, count: number): PacketStore {
    if (geometry.kind === "ribbon") return RibbonStore.from(this.#kernels, geometry, keys, codes, count);
    const store = MixedStore.create(this.#kernels, geometry, this.#parameters.fewer);
    store.insert(keys, codes, count);
    store.close();
    return store;
  }

  #epochCentres(count: number): Centres {
    if (this.#pipeline) return this.#pipeline.current;
    const histogram = histogramOf(this.#kernels, this.#buffer.delays, count);
    const { k, s0 } = this.#parameters;
    // A group costs about 14 bytes. In a small epoch, k groups would cost more than the packets, so there are fewer.
    const groups = Math.min(k, Math.max(MIN_GROUPS, Math.ceil(count / PACKETS_PER_GROUP)));
    if (this.#parameters.store === "mixed") return pairedCentres(histogram, groups, s0);
    return epochCentres(histogram, groups, { scale: "log", s0Ns: s0 });
  }

  /** Sets up empty filters and centres for the new epoch. */
  #open(pipeline: CentrePipeline): void {
    const centres = pipeline.current;
    const { capacity } = this.#parameters;
    const bits = capacity * this.#parameters.bits;
    const groups = centres.valuesNs.length;
    const stores = identitiesOf(this.#parameters).map((identity): [Identity, PacketStore] => {
      const geometry = geometryOf(this.#parameters, groups, storeSeed(this.#seed, identity));
      return [identity, createStore(this.#kernels, geometry, bits, centres.shares, capacity)];
    });
    this.#streaming = { pipeline, cells: new CellTable(this.#kernels, centres), stores: new Map(stores) };
  }

  /** Adds the rows just appended to the filters. */
  #stream({ pipeline, cells, stores }: Streaming): void {
    const buffer = this.#buffer;
    const { count, delays } = buffer;
    cells.assign(delays, this.#codes, count);
    for (const [identity, store] of stores) store.insert(this.#columnOf(identity), this.#codes, count);
    pipeline.observe(this.#kernels.f64.slice(delays >>> 3, (delays >>> 3) + count));
    buffer.taken();
  }

  #close(): SealedEpoch {
    if (!this.#streaming || this.#buffer.totals().stored === 0) {
      this.#dropStores();
      return this.#sealed({}, 0);
    }
    const { cells, stores } = this.#streaming;
    const sums = cells.sums();
    const sections: PartContents["sections"] = {
      cells: encodeCells(sums, this.#compact, this.#buffer.totals().baseNs),
    };
    for (const [identity, store] of stores) {
      store.close(sums.map((s) => s.count));
      sections[identity] = store.body();
    }
    const { groups } = cells;
    this.#dropStores();
    return this.#sealed(sections, groups);
  }

  #sealed(sections: PartContents["sections"], groups: number): SealedEpoch {
    const totals = this.#buffer.totals();
    const geometry = geometryOf(this.#parameters, groups, this.#seed);
    const part = encodePart({
      geometry,
      k: this.#parameters.k,
      nsPerByte: this.#nsPerByte,
      compact: this.#compact,
      totals,
      sections,
    });
    return { payload: encodePayload([part]), packets: totals.seen };
  }

  #dropStores(): void {
    for (const store of this.#streaming?.stores.values() ?? []) store.free();
    this.#streaming?.cells.free();
    this.#streaming = null;
  }
}
