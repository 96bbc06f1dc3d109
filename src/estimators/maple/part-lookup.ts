/** One part of a payload: its store, cells and flows, read on demand. */
import { FormatError } from "../../base/errors.ts";
import type { Kernels } from "../../base/kernels.ts";
import { entryAt } from "../../base/lists.ts";
import type { PacketAnswers } from "../estimator.ts";
import { emptyAnswers, joinAnswers, MATCH, MULTI_MATCH, NO_MATCH } from "../packet-answers.ts";
import { decodeCells, readBase } from "./cell-section.ts";
import { answerOf, type CellAnswer, joinCells } from "./cell-table.ts";
import { falsePositive } from "./dimension.ts";
import { FLOW_DELAYS_KIND, FlowDelays } from "./flow-delays.ts";
import { FlowIndex, KIND_AT, type RangeReader } from "./flow-index.ts";
import { type Identity, storeSeed } from "./identity.ts";
import { decodePartHead, PART_HEAD_BYTES, type PartHead } from "./payload.ts";
import { FILTER_HEAD_BYTES, readFilterHead } from "./stores/filter-memory.ts";
import { openStore } from "./stores/open.ts";
import { isBuilt, type PacketStore, type StoreGeometry } from "./stores/packet-store.ts";
import { RIBBON_HEAD_BYTES, ribbonLayout } from "./stores/ribbon.ts";
import { tailBytes } from "./stores/svbf.ts";

/** Cost of one range read, expressed as bytes of a full read. */
const BYTES_PER_RANGE_READ = 4096;
/** Maximum length of an IP packet: bounds the part of the delay that depends on an unknown size. */
const MAX_BYTES = 65_535;

export class MaplePart {
  readonly head: PartHead;
  readonly #kernels: Kernels;
  readonly #read: RangeReader;
  #cells: CellAnswer[] | null = null;
  #baseNs: number | null = null;
  readonly #whole = new Map<Identity, PacketStore>();
  readonly #unions = new Map<number, CellAnswer>();
  #index: FlowIndex | FlowDelays | null = null;

  constructor(kernels: Kernels, read: RangeReader, bytes: number) {
    this.#kernels = kernels;
    this.#read = read;
    this.head = decodePartHead(read(0, PART_HEAD_BYTES), bytes);
  }

  get cells(): readonly CellAnswer[] {
    const { offset, bytes } = this.head.sections.cells;
    this.#cells ??= this.#readCells(offset, bytes);
    return this.#cells;
  }

  /** The base of the cells' delays. */
  get baseNs(): number {
    const { hasBase, sections } = this.head;
    this.#baseNs ??= hasBase ? readBase(this.#read(sections.cells.offset, sections.cells.bytes)) : 0;
    return this.#baseNs;
  }

  #readCells(offset: number, bytes: number): CellAnswer[] {
    const { compact, geometry, totals } = this.head;
    const cells = decodeCells(this.#read(offset, bytes), compact, this.baseNs).map(answerOf);
    if (cells.length === (totals.stored > 0 ? geometry.groups : 0)) return cells;
    const message = `${cells.length} sums for ${geometry.groups} groups`;
    throw new FormatError("bad-record", "maple cells", 0, message);
  }

  /** The epoch's flows, if the tap listed them. */
  get index(): FlowIndex | null {
    const index = this.#anyIndex();
    return index instanceof FlowIndex ? index : null;
  }

  /** The delays of flows, if the tap stored them. */
  get flowDelays(): FlowDelays | null {
    const index = this.#anyIndex();
    return index instanceof FlowDelays ? index : null;
  }

  #anyIndex(): FlowIndex | FlowDelays | null {
    const { offset, bytes } = this.head.sections.index;
    if (bytes === 0) return null;
    if (!this.#index) {
      const read: RangeReader = (at, length) => this.#read(offset + at, length);
      this.#index =
        read(KIND_AT, 4)[0] === FLOW_DELAYS_KIND
          ? new FlowDelays(read, bytes, this.head.geometry.groups)
          : new FlowIndex(read, bytes);
    }
    return this.#index;
  }

  /** Returns all packets of a flow, ordered by delay, or null if the flow is not stored. Flows that look the same get a common answer, marked as a guess. */
  flowPackets(hash: bigint): PacketAnswers | null {
    const lists = this.flowCandidates(hash);
    return lists.length === 0 ? null : joinAnswers(lists);
  }

  everyPacket(): PacketAnswers {
    const groups = this.cells.flatMap(({ count }, group) => (count > 0 ? [group] : []));
    const answers = emptyAnswers(groups.length);
    this.#tell(answers, Uint32Array.from(groups.flatMap((g) => [g | (MATCH << 16), g | (g << 16)])));
    return answers;
  }

  /** Returns the packets of each flow that looks like this one (13 bits of its hash): mostly one flow. */
  flowCandidates(hash: bigint): PacketAnswers[] {
    const lists = this.flowDelays?.find(hash) ?? [];
    const kind = (lists.length === 1 ? MATCH : MULTI_MATCH) << 16;
    return lists.map((codes) => {
      const answers = emptyAnswers(codes.length);
      this.#tell(answers, Uint32Array.from(Array.from(codes, (c) => [c | kind, c | (c << 16)]).flat()));
      return lists.length === 1 ? answers : { ...answers, guess: true };
    });
  }

  /** At the actual fill level; for COMB, the upper bound. */
  get absentAccepted(): number {
    const { geometry, totals, sections } = this.head;
    if (totals.stored === 0) return 0;
    // Shortened numbers have fewer groups and fewer bits in the same proportion, so the share is the same.
    if (isBuilt(geometry.kind)) return geometry.groups / 2 ** geometry.codeBits;
    if (geometry.kind === "table") {
      const { packets, size } = this.#filterHead();
      return -Math.expm1(-packets / size);
    }
    if (geometry.kind === "comb") return 1;
    const bits = 8 * Math.max(sections.digest.bytes, sections["flow-ipid"].bytes);
    return 1 - (1 - falsePositive(totals.stored / bits, geometry.hashes)) ** geometry.groups;
  }

  /**
   * Filters find every packet that was added, and a ribbon finds it exactly. A table keeps the last packet of a slot: of n packets in m slots, a share of (1 -
   * e^-x)/x remains, x = n/m, and the others get the answer of the packet that replaced them. A partitioned filter leaves packets out; some of them get another
   * group as their answer.
   */
  get boundsHold(): number {
    const { geometry, totals } = this.head;
    if (totals.stored === 0 || (geometry.kind !== "table" && geometry.kind !== "pbf")) return 1;
    const { packets, leftOut, size } = this.#filterHead();
    if (geometry.kind === "table") {
      const load = packets / size;
      return load === 0 ? 1 : -Math.expm1(-load) / load;
    }
    const wrong = leftOut * this.absentAccepted;
    return (packets - leftOut) / (packets - leftOut + wrong);
  }

  lookup(identity: Identity, keys: BigUint64Array, wireBytes?: ArrayLike<number>): PacketAnswers {
    const answers = emptyAnswers(keys.length);
    const { bytes } = this.head.sections[identity];
    if (bytes === 0 || keys.length === 0) return answers;
    const { kind } = this.head.geometry;
    const ranged = kind === "ribbon" || kind === "svbf";
    const words =
      this.#whole.has(identity) || !ranged || keys.length * BYTES_PER_RANGE_READ > bytes
        ? this.#askWhole(identity, keys)
        : kind === "ribbon"
          ? this.#askRibbon(identity, keys)
          : this.#askSvbf(identity, keys);
    this.#tell(answers, words, wireBytes);
    return answers;
  }

  free(): void {
    for (const store of this.#whole.values()) store.free();
    this.#whole.clear();
  }

  /** The head of either identity's store: both hold the same packets. */
  #filterHead(): { packets: number; leftOut: number; size: number } {
    const name = this.head.sections.digest.bytes > 0 ? "digest" : "flow-ipid";
    return readFilterHead(this.#section(name)(0, FILTER_HEAD_BYTES), `maple ${this.head.geometry.kind}`);
  }

  #geometry(identity: Identity): StoreGeometry {
    return { ...this.head.geometry, seed: storeSeed(this.head.geometry.seed, identity) };
  }

  #section(identity: Identity): RangeReader {
    const { offset, bytes } = this.head.sections[identity];
    return (at, length) => this.#read(offset + at, Math.max(0, Math.min(length, bytes - at)));
  }

  #askWhole(identity: Identity, keys: BigUint64Array): Uint32Array {
    const kernels = this.#kernels;
    let store = this.#whole.get(identity);
    if (!store) {
      const { bytes } = this.head.sections[identity];
      const counts = this.cells.map((c) => c.count);
      store = openStore(kernels, this.#geometry(identity), this.#section(identity)(0, bytes), counts);
      this.#whole.set(identity, store);
    }
    const n = keys.length;
    const [at, out] = [kernels.alloc(8 * n), kernels.alloc(8 * n)];
    kernels.u64.set(keys, at >>> 3);
    store.lookup(at, n, out);
    const words = kernels.u32.slice(out >>> 2, (out >>> 2) + 2 * n);
    kernels.free(at);
    kernels.free(out);
    return words;
  }

  #askRibbon(identity: Identity, keys: BigUint64Array): Uint32Array {
    const kernels = this.#kernels;
    const { call } = kernels;
    const { seed, codeBits, groups } = this.#geometry(identity);
    const read = this.#section(identity);
    const layout = ribbonLayout(read(0, RIBBON_HEAD_BYTES), codeBits);
    const window = kernels.alloc(16 * codeBits);
    const words = new Uint32Array(2 * keys.length);
    keys.forEach((key, i) => {
      const block = call.ribbonBlock(key, seed, layout.blocks) >>> 0;
      const entry = read(layout.indexAt + 4 * block, 8);
      const view = new DataView(entry.buffer, entry.byteOffset, 8);
      const head = view.getUint32(0, true);
      const slot = call.ribbonSlot(key, seed, head, view.getUint32(4, true)) >>> 0;
      const bytes = read(layout.wordsAt + (slot >>> 6) * 8 * codeBits, 16 * codeBits);
      // At the end of the words there is no second group, and none is needed.
      kernels.u8.fill(0, window, window + 16 * codeBits);
      kernels.u8.set(bytes, window);
      const value = call.ribbonValue(key, seed, head, slot, window, codeBits) >>> 0;
      if (value >= groups) return;
      words[2 * i] = value | (MATCH << 16);
      words[2 * i + 1] = value | (value << 16);
    });
    kernels.free(window);
    return words;
  }

  #askSvbf(identity: Identity, keys: BigUint64Array): Uint32Array {
    const { call } = this.#kernels;
    const { seed, hashes, groups } = this.#geometry(identity);
    const read = this.#section(identity);
    const head = read(0, FILTER_HEAD_BYTES);
    const bits = new DataView(head.buffer, head.byteOffset, head.length).getUint32(8, true);
    const words = new Uint32Array(2 * keys.length);
    const length = tailBytes(groups);
    keys.forEach((key, i) => {
      let all = (1n << BigInt(groups)) - 1n;
      for (let j = 0; j < hashes && all !== 0n; j++) {
        const at = call.svbfPosition(key, seed, bits, j) >>> 0;
        let burst = 0n;
        for (const [b, byte] of read(FILTER_HEAD_BYTES + (at >>> 3), length).entries())
          burst |= BigInt(byte) << BigInt(8 * b);
        all &= burst >> BigInt(at & 7);
      }
      const candidates = Array.from({ length: groups }, (_, g) => g).filter((g) => (all >> BigInt(g)) & 1n);
      const [first, last] = [candidates[0], candidates.at(-1)];
      if (first === undefined || last === undefined) return;
      const count = (g: number) => this.cells[g]?.count ?? 0;
      const best = candidates.reduce((a, b) => (count(b) > count(a) ? b : a));
      words[2 * i] = best | ((candidates.length === 1 ? MATCH : MULTI_MATCH) << 16);
      words[2 * i + 1] = first | (last << 16);
    });
    return words;
  }

  /** Joins the neighbouring groups that a shortened number or several matches stand for; empty groups do not count. */
  #union(range: number): CellAnswer {
    let cell = this.#unions.get(range);
    if (!cell) {
      cell = this.cells.slice(range & 0xffff, (range >>> 16) + 1).reduce(joinCells);
      this.#unions.set(range, cell);
    }
    return cell;
  }

  #tell(answers: PacketAnswers, words: Uint32Array, wireBytes?: ArrayLike<number>): void {
    const { cells, baseNs } = this;
    const { nsPerByte, totals } = this.head;
    for (let i = 0; i < answers.count; i++) {
      const kind = words[2 * i]! >>> 16;
      if (kind === NO_MATCH) continue;
      const range = words[2 * i + 1]!;
      const single = entryAt(cells, words[2 * i]! & 0xffff);
      const bounds = (range & 0xffff) === range >>> 16 ? single : this.#union(range);
      const cell = kind === MATCH ? bounds : single;
      const size = wireBytes?.[i] ?? 0;
      const known = nsPerByte === 0 || size > 0;
      answers.kind[i] = kind;
      answers.valueNs[i] = baseNs + cell.meanNs + nsPerByte * (known ? size : totals.bytes / totals.summed);
      // A queueing delay was rounded to whole ns when stored; very large delays cannot be represented to the ns.
      const slack = (nsPerByte === 0 ? 0 : 1) + Math.abs(baseNs) * 2 ** -52;
      answers.lowNs[i] = baseNs + bounds.lowNs + nsPerByte * (known ? size : 0) - slack;
      answers.highNs[i] = baseNs + bounds.highNs + nsPerByte * (known ? size : MAX_BYTES) + slack;
      answers.varianceNs2[i] = cell.varianceNs2;
      answers.groupPackets[i] = cell.count;
    }
  }
}
