/**
 * Rises of a level that never falls, from values that each show it with a deviation of their own.
 *
 * The best level that does not fall is the isotonic regression (pool adjacent violators): blocks of equal level, each the weighted mean of its values. Chance
 * alone raises some of them, especially at the ends, so adjacent blocks are merged, the least different first, until each rise exceeds a number of its
 * deviations. A level that rises slowly and steadily ends as a staircase with steps just large enough to be seen: each step is distributed over the values
 * around it as the blocks rose before merging.
 */
export interface ShownLevel {
  level: number;
  deviation: number;
}

/** Number of assumed values added to the given ones when deviations are judged by the scatter of the values. */
const SUPPOSED = 8;

/** A compromise: 1 distributes part of a large step to each small one next to it; larger values concentrate a step in one place. */
const SHARPNESS = 1.5;

/** Number of blocks merged per part. */
const PART = 128;

interface Block {
  start: number;
  end: number;
  weight: number;
  level: number;
}

/** Returns the rise from each value to the next: one fewer than values. None is negative. */
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

/**
 * Distributes the rise from one block to the next over the values between their middles, in proportion to a power of the rises before merging, which favours
 * one that stands out.
 */
function spread(raw: Float64Array, a: Block, b: Block, rises: number[]): void {
  const [from, to] = [(a.start + a.end - 1) >> 1, (b.start + b.end) >> 1];
  let sum = 0;
  for (let i = from; i < to; i++) sum += raw[i]! ** SHARPNESS;
  for (let i = from; i < to; i++) rises[i]! += ((b.level - a.level) * raw[i]! ** SHARPNESS) / sum;
}

/** How far the values are from their blocks, in their deviations: root mean square, including assumed values at exactly one deviation. */
function scatterOf(values: readonly ShownLevel[], blocks: readonly Block[]): number {
  let sum = SUPPOSED;
  for (const { start, end, level } of blocks)
    for (const value of values.slice(start, end)) sum += ((value.level - level) / value.deviation) ** 2;
  return Math.sqrt(sum / (SUPPOSED + values.length - blocks.length));
}

/** `end` is after the last value. */
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

/** Merges until every rise is large enough: within parts of the list, whose borders move from pass to pass, because each merge scans its whole part. */
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
