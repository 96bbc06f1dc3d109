/** Builds the page from elements and text. Data only becomes text nodes; nothing here parses HTML. */

export type Child = Node | string | number | null | undefined | false | Child[];

type Handlers = { [K in keyof HTMLElementEventMap]?: (event: HTMLElementEventMap[K]) => void };

export interface Props {
  class?: string;
  id?: string;
  title?: string;
  href?: string;
  type?: string;
  placeholder?: string;
  for?: string;
  scope?: string;
  role?: string;
  tabindex?: number;
  colspan?: number;
  hidden?: boolean;
  spellcheck?: boolean;
  disabled?: boolean;
  aria?: Record<string, string>;
  data?: Record<string, string>;
  on?: Handlers;
}

export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  props: Props = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === false) continue;
    if (name === "on") {
      for (const [event, handler] of Object.entries(value as Handlers)) {
        node.addEventListener(event, handler as EventListener);
      }
    } else if (name === "aria" || name === "data") {
      for (const [key, text] of Object.entries(value as Record<string, string>)) {
        node.setAttribute(`${name}-${key}`, text);
      }
    } else node.setAttribute(name, value === true ? "" : String(value));
  }
  append(node, children);
  return node;
}

export function append(node: Element, children: Child[]): void {
  for (const child of children) {
    if (Array.isArray(child)) append(node, child);
    else if (child !== null && child !== undefined && child !== false) {
      node.append(child instanceof Node ? child : String(child));
    }
  }
}

/** Text of unknown writing direction (file names, keys); it does not reorder the text around it. */
export function bdi(text: string, className?: string): HTMLElement {
  return el("bdi", className ? { class: className } : {}, text);
}

export function card(id: string, title: string, ...children: Child[]): HTMLElement {
  return el(
    "section",
    { class: "card", id, aria: { labelledby: `${id}-title` } },
    el("h2", { id: `${id}-title` }, title),
    children,
  );
}

export interface Choice<T extends string> {
  value: T;
  label: string;
  /** The reason why it cannot be selected. */
  unavailable?: string | undefined;
}

/** A row of buttons of which one is selected. */
export function choice<T extends string>(
  label: string,
  choices: Choice<T>[],
  chosen: T,
  change: (value: T) => void,
): HTMLElement {
  const buttons = choices.map((c) =>
    el(
      "button",
      {
        type: "button",
        aria: { pressed: String(c.value === chosen) },
        disabled: c.unavailable !== undefined,
        ...(c.unavailable !== undefined && { title: c.unavailable }),
        data: { value: c.value },
        on: {
          click: (event) => {
            for (const b of buttons) b.setAttribute("aria-pressed", String(b === event.currentTarget));
            change(c.value);
          },
        },
      },
      c.label,
    ),
  );
  return el("div", { class: "choice", role: "group", aria: { label } }, buttons);
}

/** Name and value pairs; `wide` uses as many columns as fit. */
export function facts(rows: [Child, Child][], wide = false): HTMLElement {
  return el(
    "dl",
    { class: wide ? "facts wide" : "facts" },
    rows.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))),
  );
}

export function sentences(lines: string[], className = "sentences"): HTMLElement {
  return el(
    "ul",
    { class: className },
    lines.map((line) => el("li", {}, line)),
  );
}
