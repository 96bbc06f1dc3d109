/**
 * Rises of a level that never falls, from values that each show it with a deviation of their own.
 *
 * The best level that does not fall is the isotonic regression (pool adjacent violators): blocks of equal level, each the weighted mean of its values. Chance alone raises some of them, above all at
 * the ends, so neighbours are joined, the least different first, until each rise is more than so many of its deviations. A level that rises slowly and steadily ends as a staircase with steps
 * just large enough to be seen: each step is shared by the values around it as the blocks before joining rise.
 */
export interface ShownLevel {
  level: number;
  deviation: number;
}

/** Values that are supposed beside those given, when deviations are judged by how far the values scatter. */
const SUPPOSED = 8;

/** Between shares as they are (1), which lend a part of one large step to each small one beside it, and one step for all. */
const SHARPNESS = 1.5;

/** Blocks that are joined at a time. */
const PART = 128;

interface Block {
  start: number;
  end: number;
  weight: number;
  level: number;
}

/** Rises from each value to the next: one less than values. None is negative. */
export function risesOf(values: readonly ShownLevel[], deviations: number): number[] {
  const blocks = pooled(values);
  const scale = Math.max(1, scatterOf(values, joinedBlocks(blocks, deviations)));
  const joined = joinedBlocks(blocks, deviations * scale);
  const raw = new Float64Array(values.length);
  for (const [a, b] of neighbours(blocks)) raw[b.start - 1] = b.level - a.level;
  const rises = new Array<number>(Math.max(0, values.length - 1)).fill(0);
  for (const [a, b] of neighbours(joined)) spread(raw, a, b, rises);
  return rises;
}

/** The rise from one block to the next, shared between their middles by the rises before joining: a power of them, which favours one that stands out. */
function spread(raw: Float64Array, a: Block, b: Block, rises: number[]): void {
  const [from, to] = [(a.start + a.end - 1) >> 1, (b.start + b.end) >> 1];
  let sum = 0;
  for (let i = from; i < to; i++) sum += raw[i]! ** SHARPNESS;
  for (let i = from; i < to; i++) rises[i]! += ((b.level - a.level) * raw[i]! ** SHARPNESS) / sum;
}

/** How far the values are from their blocks, in their deviations: root mean square, with some values that are as far as their deviations say. */
function scatterOf(values: readonly ShownLevel[], blocks: readonly Block[]): number {
  let sum = SUPPOSED;
  for (const { start, end, level } of blocks)
    for (const value of values.slice(start, end)) sum += ((value.level - level) / value.deviation) ** 2;
  return Math.sqrt(sum / (SUPPOSED + values.length - blocks.length));
}

/** `end` is behind the last value. */
function pooled(values: readonly ShownLevel[]): Block[] {
  const blocks: Block[] = [];
  for (const [start, { level, deviation }] of values.entries()) {
    blocks.push({ start, end: start + 1, weight: 1 / deviation ** 2, level });
    for (;;) {
      const [a, b] = [blocks.at(-2), blocks.at(-1)];
      if (!a || !b || a.level < b.level) break;
      blocks.splice(-2, 2, together(a, b));
    }
  }
  return blocks;
}

function together(a: Block, b: Block): Block {
  const weight = a.weight + b.weight;
  return { start: a.start, end: b.end, weight, level: (a.level * a.weight + b.level * b.weight) / weight };
}

/** Until every rise is large enough: within parts of the list, whose borders move from pass to pass, because each join looks at all of its part. */
function joinedBlocks(blocks: readonly Block[], deviations: number): Block[] {
  let left = [...blocks];
  for (let [pass, unchanged] = [0, 0]; unchanged < 2; pass++) {
    const joined: Block[] = [];
    let from = 0;
    for (let to = pass % 2 === 0 ? PART : PART / 2; from < left.length; from = to, to += PART)
      joined.push(...joinedPart(left.slice(from, to), deviations));
    unchanged = joined.length === left.length ? unchanged + 1 : 0;
    left = joined;
  }
  return left;
}

/** The least different neighbours first. */
function joinedPart(left: Block[], deviations: number): Block[] {
  for (;;) {
    let least = deviations;
    let pair: [Block, Block] | null = null;
    for (const [a, b] of neighbours(left)) {
      const apart = (b.level - a.level) / Math.sqrt(1 / a.weight + 1 / b.weight);
      if (apart < least) [least, pair] = [apart, [a, b]];
    }
    if (!pair) return left;
    left.splice(left.indexOf(pair[0]), 2, together(...pair));
  }
}

function* neighbours(blocks: readonly Block[]): Generator<[Block, Block]> {
  let before: Block | null = null;
  for (const block of blocks) {
    if (before) yield [before, block];
    before = block;
  }
}
