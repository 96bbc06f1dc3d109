/** Combines the charts below an element, one below the other, into one picture: canvas and SVG charts. */
import { download } from "./download.ts";

const CHARTS = ".chart, .heat, svg.map";
/** Styles that SVG charts get from style sheets; a separate picture needs them as attributes. */
const STYLES = [
  ...["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "paint-order"],
  ...["font-size", "font-family", "font-weight", "text-anchor"],
];
const HEAD_PX = 34;
const CAPTION_PX = 22;

interface Part {
  caption: string;
  widthPx: number;
  heightPx: number;
  draw(ctx: CanvasRenderingContext2D, top: number, ratio: number): void;
}

export async function savePng(root: Element | null, title: string): Promise<void> {
  const charts = [...(root?.querySelectorAll(CHARTS) ?? [])];
  const parts = (await Promise.all(charts.map(partOf))).filter((p) => p !== null);
  if (parts.length === 0) return;
  const ratio = devicePixelRatio;
  const out = document.createElement("canvas");
  out.width = Math.ceil(ratio * Math.max(...parts.map((p) => p.widthPx)));
  out.height = Math.ceil(ratio * parts.reduce((sum, p) => sum + CAPTION_PX + p.heightPx, HEAD_PX));
  const ctx = out.getContext("2d");
  if (!ctx) return;
  const style = getComputedStyle(document.documentElement);
  const text = (words: string, top: number, font: string, colour: string) => {
    ctx.fillStyle = style.getPropertyValue(colour);
    ctx.font = font;
    ctx.fillText(words, 12 * ratio, top * ratio);
  };
  ctx.fillStyle = style.getPropertyValue("--card");
  ctx.fillRect(0, 0, out.width, out.height);
  text(title, 22, `600 ${15 * ratio}px system-ui, sans-serif`, "--ink");
  let top = HEAD_PX;
  for (const part of parts) {
    text(part.caption, top + 14, `${12 * ratio}px system-ui, sans-serif`, "--muted");
    top += CAPTION_PX;
    part.draw(ctx, top * ratio, ratio);
    top += part.heightPx;
  }
  out.toBlob((blob) => blob && download(`${title}.png`, blob));
}

async function partOf(chart: Element): Promise<Part | null> {
  const { width: widthPx, height: heightPx } = chart.getBoundingClientRect();
  const caption = chart.getAttribute("aria-label") ?? "";
  const canvas = chart.querySelector("canvas");
  if (canvas) return { caption, widthPx, heightPx, draw: (ctx, top) => ctx.drawImage(canvas, 0, top) };
  const svg = chart instanceof SVGSVGElement ? chart : chart.querySelector("svg");
  if (!svg || widthPx === 0) return null;
  const image = await imageOf(svg);
  const box = svg.getBoundingClientRect();
  const left = box.left - chart.getBoundingClientRect().left;
  const labels = [...chart.querySelectorAll<HTMLElement>(".heat-axis span")];
  return {
    ...{ caption, widthPx, heightPx },
    draw: (ctx, top, ratio) => {
      ctx.drawImage(image, left * ratio, top, box.width * ratio, box.height * ratio);
      ctx.textAlign = "right";
      for (const label of labels)
        ctx.fillText(label.textContent ?? "", (left - 8) * ratio, top + (label.offsetTop + 4) * ratio);
      ctx.textAlign = "left";
    },
  };
}

/** Copies the styles into attributes, because an SVG image is a separate document. */
async function imageOf(svg: SVGSVGElement): Promise<HTMLImageElement> {
  const copy = svg.cloneNode(true) as SVGSVGElement;
  const own = [svg, ...svg.querySelectorAll("*")];
  for (const [i, node] of [copy, ...copy.querySelectorAll("*")].entries()) {
    const style = getComputedStyle(own[i] ?? svg);
    node.removeAttribute("style");
    for (const name of STYLES) node.setAttribute(name, style.getPropertyValue(name));
  }
  const { width, height } = svg.getBoundingClientRect();
  copy.setAttribute("width", `${width}`);
  copy.setAttribute("height", `${height}`);
  const image = new Image();
  image.src = `data:image/svg+xml,${encodeURIComponent(new XMLSerializer().serializeToString(copy))}`;
  await image.decode();
  return image;
}
