/** Where the texts of links stand on the map: near the middle of their link, clear of points, names and each other where there is room. */
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

/** Beyond so many, all stand in the middle: nobody reads them, and it would take too long. */
const MOST = 200;
const LETTER_PX = 6.4;
const LINE_PX = 14;
const NODE_PX = 12;
/** Along the link from its middle, as a share of its length. */
const ALONG = [0, -0.12, 0.12, -0.24, 0.24];
/** Of the base line, above and below the link. */
const ABOVE_PX = -9;
const BELOW_PX = 20;

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

/** By link: where its text is centred, and its base line. */
export function placeLabels(
  links: readonly LabelledLink[],
  nodes: Iterable<Node>,
  shrunk: number,
): { x: number; y: number }[] {
  const middle = ({ x, y }: LabelledLink) => ({ x, y: y + ABOVE_PX });
  if (links.length > MOST) return links.map(middle);
  const taken: Box[] = [];
  for (const { x, y, name } of nodes) {
    taken.push({ left: x - NODE_PX, right: x + NODE_PX, top: y - NODE_PX, bottom: y + NODE_PX });
    taken.push(textBox(x, y + 26, name, shrunk));
  }
  const places = links.map(middle);
  const order = links.map((_, i) => i).sort((a, b) => Number(links[b]?.first) - Number(links[a]?.first));
  for (const i of order) {
    const link = links[i];
    if (!link || link.text === "") continue;
    let best: { cost: number; x: number; y: number; box: Box } | null = null;
    for (const along of ALONG)
      for (const off of [ABOVE_PX, BELOW_PX * shrunk]) {
        const [x, y] = [link.x + along * link.dx, link.y + along * link.dy + off];
        const box = textBox(x, y, link.text, shrunk);
        const cost =
          taken.reduce((sum, b) => sum + shared(box, b), 0) + 20 * Math.abs(along) + (off > 0 ? 3 : 0);
        if (!best || cost < best.cost) best = { cost, x, y, box };
      }
    if (!best) continue;
    places[i] = { x: best.x, y: best.y };
    taken.push(best.box);
  }
  return places;
}
