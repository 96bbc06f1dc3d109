/** Positions of link labels on the map: near the middle of the link and, if there is room, without covering points, names and each other. */
import type { Node } from "./layout.ts";

export interface LabelledLink {
  /** Middle of the link, and its direction. */
  x: number;
  y: number;
  dx: number;
  dy: number;
  text: string;
  /** Placed before the others. */
  first: boolean;
}

interface Box {
  left: number;
  right: number;
  top: number;
  bottom: number;
}

/** With more links, all labels are placed in the middle: they are unreadable anyway, and placing them would take too long. */
const MOST = 200;
const LETTER_PX = 6.4;
const LINE_PX = 14;
const NODE_PX = 12;
/** Offsets from the middle along the link, as a share of its length. */
const ALONG = [0, -0.12, 0.12, -0.24, 0.24];
const ARROW_PX = 6;
/** Offsets of the base line above the link, and of the text's edge beside a steep one. */
const ABOVE_PX = -9;
const BESIDE_PX = 9;
/** Cost of each part of a link that crosses a text. */
const STRUCK = 60;
const PARTS = 12;

/** Vertical offset of a point's name. */
export const nameOffset = (shrunk: number): number => 10 + 16 * shrunk;

function textBox(x: number, y: number, text: string, shrunk: number): Box {
  const half = (text.length * LETTER_PX * shrunk) / 2;
  return {
    left: x - half,
    right: x + half,
    top: y - 0.8 * LINE_PX * shrunk,
    bottom: y + 0.25 * LINE_PX * shrunk,
  };
}

function shared(a: Box, b: Box): number {
  const width = Math.min(a.right, b.right) - Math.max(a.left, b.left);
  const height = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
  return width > 0 && height > 0 ? width * height : 0;
}

/** Returns the positions above, below, right and left of a point on the link. */
function around(x: number, y: number, text: string, shrunk: number): { x: number; y: number }[] {
  const beside = (text.length * LETTER_PX * shrunk) / 2 + BESIDE_PX;
  const level = y + 0.3 * LINE_PX * shrunk;
  const below = y + BESIDE_PX + 0.8 * LINE_PX * shrunk;
  return [
    { x, y: y + ABOVE_PX },
    { x, y: below },
    { x: x + beside, y: level },
    { x: x - beside, y: level },
  ];
}

/** Returns, for each link, the centre and base line of its text. */
export function placeLabels(
  links: readonly LabelledLink[],
  nodes: Iterable<Node>,
  shrunk: number,
): { x: number; y: number }[] {
  const places = links.map(({ x, y }) => ({ x, y: y + ABOVE_PX }));
  if (links.length > MOST) return places;
  const taken: Box[] = links.map(({ x, y }) => square(x, y, ARROW_PX));
  for (const { x, y, name } of nodes)
    taken.push(square(x, y, NODE_PX * shrunk), textBox(x, y + nameOffset(shrunk), name, shrunk));
  const parts = links.flatMap(({ x, y, dx, dy }) =>
    Array.from({ length: PARTS }, (_, i) => {
      const at = (i + 0.5) / PARTS - 0.5;
      return { x: x + at * dx, y: y + at * dy };
    }),
  );
  const order = links.map((_, i) => i).sort((a, b) => Number(links[b]?.first) - Number(links[a]?.first));
  for (const i of order) {
    const link = links[i];
    if (!link || link.text === "") continue;
    let best: { cost: number; x: number; y: number; box: Box } | null = null;
    for (const along of ALONG)
      for (const { x, y } of around(link.x + along * link.dx, link.y + along * link.dy, link.text, shrunk)) {
        const box = textBox(x, y, link.text, shrunk);
        const struck = parts.filter((p) => holds(box, p)).length;
        const covered = taken.reduce((sum, b) => sum + shared(box, b), 0);
        const cost = covered + STRUCK * struck + 20 * Math.abs(along);
        if (!best || cost < best.cost) best = { cost, x, y, box };
      }
    if (!best) continue;
    places[i] = { x: best.x, y: best.y };
    taken.push(best.box);
  }
  return places;
}

const square = (x: number, y: number, half: number): Box => ({
  ...{ left: x - half, right: x + half, top: y - half, bottom: y + half },
});

const holds = ({ left, right, top, bottom }: Box, { x, y }: { x: number; y: number }): boolean =>
  x > left && x < right && y > top && y < bottom;
