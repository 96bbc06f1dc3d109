/** Colours of the charts, read from the style sheet, which defines them for light, dark and print. */

export interface Theme {
  ink: string;
  muted: string;
  grid: string;
  card: string;
  p50: string;
  p90: string;
  p99: string;
  band: string;
  loss: string;
  sent: string;
  /** From low to high counts, for the heat map. */
  heat: [number, number, number][];
}

export function currentTheme(): Theme {
  const style = getComputedStyle(document.documentElement);
  const read = (name: string) => style.getPropertyValue(`--${name}`).trim();
  return {
    ink: read("ink"),
    muted: read("muted"),
    grid: read("grid"),
    card: read("card"),
    p50: read("p50"),
    p90: read("p90"),
    p99: read("p99"),
    band: read("band"),
    loss: read("loss"),
    sent: read("sent"),
    heat: read("heat")
      .split(/\s+/)
      .map((hex) => {
        const n = Number.parseInt(hex.slice(1), 16);
        return [n >> 16, (n >> 8) & 255, n & 255];
      }),
  };
}

/** Returns the heat colour at t in [0, 1]. */
export function heatColour(theme: Theme, t: number): string {
  const stops = theme.heat;
  const at = Math.max(0, Math.min(1, t)) * (stops.length - 1);
  const i = Math.min(stops.length - 2, Math.floor(at));
  const mix = at - i;
  const channel = (c: 0 | 1 | 2) => Math.round(stops[i]![c] * (1 - mix) + stops[i + 1]![c] * mix);
  return `rgb(${channel(0)},${channel(1)},${channel(2)})`;
}

/** Marks the page while it is printed, because paper is always light. Call this before other listeners are added. */
export function watchPrinting(): void {
  const root = document.documentElement;
  addEventListener("beforeprint", () => root.setAttribute("data-print", ""));
  addEventListener("afterprint", () => root.removeAttribute("data-print"));
}

export const isPrinting = (): boolean => document.documentElement.hasAttribute("data-print");

/** Event on the window when the viewer selects colours. */
export const COLOURS_CHOSEN = "hoptime-colours";

/** Calls back when the colours change: by the system's colour scheme, or before and after printing. */
export function onThemeChange(changed: () => void): void {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
  addEventListener(COLOURS_CHOSEN, changed);
  addEventListener("beforeprint", changed);
  addEventListener("afterprint", changed);
}
