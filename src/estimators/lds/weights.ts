/**
 * Flow weights by policy (LDS section 4.1): `100:udp dst port 53;10:net 10.1.0.0/16`. The first matching expression gives the weight; other flows have weight
 * 1. A packet of weight w is added w times, so the flow stands out in its cells by a factor of w, at the cost of every other flow.
 *
 * Expressions see the columns after the flow key has masked them, so that a weight belongs to a flow and can be derived again for a flow in a question. They
 * should only use what is in the key: addresses, ports, protocol; DSCP or VLAN if the key keeps them.
 */
import { UsageError } from "../../base/errors.ts";
import { Kernels } from "../../base/kernels.ts";
import { PacketBatch } from "../../capture/batch.ts";
import { type CompiledFilter, compileFilter } from "../../capture/filter/filter.ts";

const MAX_WEIGHT = 65_535;

export interface WeightClass {
  weight: number;
  expression: string;
}

export function parseWeights(text: string): WeightClass[] {
  return text
    .split(";")
    .map((part) => part.trim())
    .filter((part) => part !== "")
    .map((part) => {
      const match = /^(\d+)\s*:\s*(.+)$/s.exec(part);
      const weight = Number(match?.[1]);
      if (!match || !(weight >= 1 && weight <= MAX_WEIGHT)) {
        throw new UsageError(
          "bad-parameter",
          `weights: '${part}' is not WEIGHT:EXPRESSION`,
          `such as 100:udp dst port 53;10:net 10.1.0.0/16, weights from 1 to ${MAX_WEIGHT}`,
        );
      }
      return { weight, expression: (match[2] ?? "").trim() };
    });
}

/** Weights of a batch's rows, in kernel memory. */
export class RowWeights {
  readonly #kernels: Kernels;
  readonly #classes: { weight: number; filter: CompiledFilter }[];
  #address = 0;
  #rows = 0;

  constructor(kernels: Kernels, classes: readonly WeightClass[]) {
    this.#kernels = kernels;
    this.#classes = classes.map((c) => ({ weight: c.weight, filter: compileFilter(c.expression, kernels) }));
  }

  /** Returns the address of a u32 per row of the batch. */
  of(batch: PacketBatch): number {
    if (this.#rows < batch.capacity) {
      this.#freeRows();
      this.#address = this.#kernels.alloc(batch.capacity * 4);
      this.#rows = batch.capacity;
    }
    const at = this.#address >>> 2;
    const n = batch.count;
    this.#kernels.u32.fill(1, at, at + n);
    // In reverse order, so that the first matching class wins.
    for (const { weight, filter } of this.#classes.toReversed()) {
      filter.select(batch);
      const plane = batch.column("select");
      const { u8, u32 } = this.#kernels;
      for (let i = 0; i < n; i++) if (u8[plane + i] !== 0) u32[at + i] = weight;
    }
    return this.#address;
  }

  free(): void {
    this.#freeRows();
    for (const { filter } of this.#classes) filter.free();
  }

  #freeRows(): void {
    if (this.#address !== 0) this.#kernels.free(this.#address);
    this.#address = 0;
    this.#rows = 0;
  }
}

/** Returns the weight of each flow from its key (ten words each); null if all weights are 1. */
export function flowWeights(text: string, keyWords: Uint32Array, flows: number): Float64Array | null {
  const classes = parseWeights(text);
  if (classes.length === 0) return null;
  const kernels = new Kernels();
  const batch = new PacketBatch(kernels);
  const rows = new RowWeights(kernels, classes);
  const out = new Float64Array(flows).fill(1);
  for (let from = 0; from < flows; from += batch.capacity) {
    const n = Math.min(batch.capacity, flows - from);
    batch.count = n;
    const columns = [batch.meta, batch.addrA, batch.addrB, batch.addrC, batch.addrD];
    for (let i = 0; i < n; i++) {
      for (const [c, column] of columns.entries()) {
        const word = (from + i) * 10 + 2 * c;
        column[2 * i] = keyWords[word]!;
        column[2 * i + 1] = keyWords[word + 1]!;
      }
    }
    batch.wireLength.fill(0, 0, n);
    batch.flags.fill(0, 0, n);
    const at = rows.of(batch) >>> 2;
    for (let i = 0; i < n; i++) out[from + i] = kernels.u32[at + i]!;
  }
  return out;
}
