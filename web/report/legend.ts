import type { Chart } from "./chart.ts";
import { el } from "./elements.ts";

export interface LegendItem {
  label: string;
  kind: "line" | "dash" | "area" | "block";
  /** Name of a colour of the style sheet. */
  colour: string;
}

/** The legend; each entry is a button that hides or shows its line. */
export function legend(chart: Chart, items: LegendItem[]): HTMLElement {
  return el(
    "div",
    { class: "legend", role: "group", aria: { label: "Lines shown" } },
    items.map((item) => {
      const swatch = el("i", { class: `swatch ${item.kind}` });
      swatch.style.setProperty("--colour", `var(--${item.colour})`);
      return el(
        "button",
        {
          type: "button",
          aria: { pressed: "true" },
          on: {
            click: (event) => {
              const shown = chart.toggle(item.label);
              (event.currentTarget as HTMLElement).setAttribute("aria-pressed", String(shown));
            },
          },
        },
        swatch,
        item.label,
      );
    }),
  );
}
