/**
 * The table of flows. Only visible rows exist as elements (about forty, reused while scrolling), so its cost does not grow with the number of flows. When
 * printed, it contains the first rows in the current order and filter.
 */

import { formatCount } from "../../src/base/quantity.ts";
import { isPrinting } from "../design/theme.ts";
import { choice, el } from "./elements.ts";
import { type Column, tableColumns } from "./flow-columns.ts";
import { flowsAsCsv, save } from "./flow-csv.ts";
import { flowDetail } from "./flow-detail.ts";
import type { FlowDirection } from "./flow-direction.ts";
import type { SortKey } from "./flow-rows.ts";
import { rangeBar, type SpreadAxis, spreadAxis } from "./range-bar.ts";

const ROW_PX = 33;
const SPARE_ROWS = 8;
const PRINTED_ROWS = 100;

const classOf = (column: Column): string =>
  column.lines ? "text lines" : column.text ? "text" : column.extra ? "extra" : "";

export class FlowTable {
  readonly root: HTMLElement;
  #direction: FlowDirection;
  readonly #first: FlowDirection;
  readonly #columns: Column[];
  #axis: SpreadAxis;
  #filter = "";
  #sortKey: SortKey = "sent";
  #descending = true;
  #order: Uint32Array = new Uint32Array(0);
  #selected = -1;
  #drawn = "";
  readonly #heads = new Map<SortKey, HTMLElement>();
  readonly #body = el("tbody");
  readonly #table: HTMLTableElement;
  readonly #scroll: HTMLElement;
  readonly #state = el("p", { class: "flow-state", role: "status", aria: { live: "polite" } });
  readonly #detail = el("div", { class: "flow-detail", aria: { live: "polite" }, hidden: true });

  constructor(directions: FlowDirection[]) {
    this.#direction = directions[0]!;
    this.#first = this.#direction;
    this.#columns = tableColumns(directions.map((d) => d.rows));
    this.#axis = spreadAxis(this.#direction.rows.columns.latency);
    const total = this.#columns.reduce((sum, c) => sum + c.widthPx, 0);
    const columnWidths = this.#columns.map((c) => {
      const col = el("col", c.extra ? { class: "extra" } : {});
      col.style.setProperty("--share", `${((c.widthPx / total) * 100).toFixed(3)}%`);
      return col;
    });
    this.#table = el(
      "table",
      { class: "flows" },
      el("colgroup", {}, columnWidths),
      el(
        "thead",
        {},
        el(
          "tr",
          {},
          this.#columns.map((c) => this.#head(c)),
        ),
      ),
      this.#body,
    );
    this.#scroll = el(
      "div",
      {
        class: "flow-scroll",
        tabindex: 0,
        role: "region",
        aria: { label: "Flows; up and down choose a flow" },
        on: {
          scroll: () => this.#draw(),
          keydown: (event) => this.#key(event),
          click: (event) => this.#click(event),
        },
      },
      this.#table,
    );
    this.#scroll.style.setProperty("--min-width", `${total}px`);
    let waiting = 0;
    const input = el("input", {
      type: "search",
      id: "flow-filter",
      spellcheck: false,
      placeholder: "10.1. :443 !udp  loss>1%  p99>5ms",
      on: {
        input: () => {
          clearTimeout(waiting);
          waiting = window.setTimeout(() => this.#setFilter(input.value), 60);
        },
      },
    });
    this.root = el(
      "div",
      {},
      el(
        "div",
        { class: "tools flow-tools" },
        el("label", { for: "flow-filter" }, "Filter"),
        input,
        directions.length > 1 &&
          choice(
            "Direction",
            directions.map((d, i) => ({ value: String(i), label: d.label })),
            "0",
            (i) => this.#setDirection(directions[Number(i)]!),
          ),
        el(
          "button",
          {
            type: "button",
            class: "plain-button",
            title: "Save the flows that pass the filter, in this order",
            on: { click: () => save("flows.csv", this.#csv()) },
          },
          "Save CSV",
        ),
      ),
      this.#state,
      this.#scroll,
      this.#detail,
    );
    new ResizeObserver(() => this.#draw()).observe(this.#scroll);
    addEventListener("beforeprint", () => this.#draw());
    addEventListener("afterprint", () => this.#draw());
    this.#arrange();
  }

  #head(column: Column): HTMLElement {
    const head = el(
      "th",
      { scope: "col", class: classOf(column), title: column.hint },
      el("button", { type: "button", on: { click: () => this.#sortBy(column) } }, column.label),
    );
    this.#heads.set(column.key, head);
    return head;
  }

  #sortBy(column: Column): void {
    // Numbers are first sorted in descending order, names in ascending order.
    this.#descending = this.#sortKey === column.key ? !this.#descending : !column.text;
    this.#sortKey = column.key;
    this.#arrange();
  }

  #csv(): string {
    const way = this.#direction === this.#first ? "forward" : "reverse";
    return flowsAsCsv(this.#direction.rows, this.#order, way);
  }

  #setFilter(filter: string): void {
    this.#filter = filter;
    this.#arrange();
  }

  #setDirection(direction: FlowDirection): void {
    this.#direction = direction;
    this.#axis = spreadAxis(direction.rows.columns.latency);
    this.#arrange();
  }

  #arrange(): void {
    const { rows } = this.#direction;
    const { rows: passing, misread } = rows.matching(this.#filter);
    this.#order = rows.sorted(passing, this.#sortKey, this.#descending);
    this.#select(-1);
    for (const [key, head] of this.#heads) {
      if (key === this.#sortKey)
        head.setAttribute("aria-sort", this.#descending ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    }
    const { length, total } = rows.columns;
    const shown = this.#order.length;
    const parts = [
      shown === length
        ? `${formatCount(length)} ${length === 1 ? "flow" : "flows"}`
        : `${formatCount(shown)} of ${formatCount(length)} flows`,
    ];
    if (total > length) {
      parts.push(
        `the ${formatCount(length)} with most packets of ${formatCount(total)}; all are in the JSON output`,
      );
    }
    if (misread.length > 0) parts.push(`read as text, not as a condition: ${misread.join(" ")}`);
    this.#state.textContent = parts.join(" · ");
    this.#table.setAttribute("aria-rowcount", String(shown + 1));
    this.#scroll.scrollTop = 0;
    this.#drawn = "";
    this.#draw();
  }

  #draw(): void {
    const printing = isPrinting();
    const inSight = Math.ceil((this.#scroll.clientHeight || 500) / ROW_PX);
    const first = printing ? 0 : Math.max(0, Math.floor(this.#scroll.scrollTop / ROW_PX) - SPARE_ROWS);
    const last = Math.min(this.#order.length, printing ? PRINTED_ROWS : first + inSight + 2 * SPARE_ROWS);
    const want = `${first} ${last} ${this.#selected} ${printing}`;
    if (want === this.#drawn) return;
    this.#drawn = want;
    const lines: HTMLElement[] = [];
    for (let at = first; at < last; at++) lines.push(this.#line(at));
    if (this.#order.length === 0) lines.push(this.#message("No flow passes the filter."));
    const rest = this.#order.length - last;
    if (printing && rest > 0) lines.push(this.#message(`… and ${formatCount(rest)} more flows`));
    const gap = (rows: number) => {
      const line = el("tr", { class: "gap", aria: { hidden: "true" } });
      line.style.height = `${rows * ROW_PX}px`;
      return line;
    };
    this.#body.replaceChildren(...(printing ? lines : [gap(first), ...lines, gap(rest)]));
  }

  #message(text: string): HTMLElement {
    return el("tr", {}, el("td", { class: "text", colspan: this.#columns.length }, text));
  }

  #line(at: number): HTMLElement {
    const row = this.#order[at]!;
    const { rows } = this.#direction;
    const missing = rows.reason(row);
    return el(
      "tr",
      {
        aria: { rowindex: String(at + 2), selected: String(at === this.#selected) },
        data: { at: String(at) },
        ...(missing && { title: `No delay: ${missing}` }),
      },
      this.#columns.map((c) => {
        if (c.key === "spread") {
          return el(
            "td",
            { class: "text" },
            missing ? missing : rangeBar(this.#axis, rows.columns.latency, row),
          );
        }
        const text = c.cell(rows, row);
        const cell = el("td", { class: classOf(c), ...(c.text && { title: text }) }, text);
        if (c.key === "lost" || c.key === "loss")
          cell.classList.toggle("has-loss", rows.columns.count.lost[row]! > 0);
        return cell;
      }),
    );
  }

  #click(event: MouseEvent): void {
    const line = (event.target as Element).closest("tr[data-at]");
    if (!line) return;
    const at = Number(line.getAttribute("data-at"));
    this.#select(at === this.#selected ? -1 : at);
  }

  #key(event: KeyboardEvent): void {
    if (event.target !== this.#scroll) return;
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 12, PageUp: -12 }[event.key];
    if (event.key === "Escape") this.#select(-1);
    else if (event.key === "Home") this.#select(0);
    else if (event.key === "End") this.#select(this.#order.length - 1);
    else if (step !== undefined) {
      this.#select(Math.max(0, Math.min(this.#order.length - 1, this.#selected + step)));
    } else return;
    event.preventDefault();
  }

  #select(at: number): void {
    this.#selected = at;
    this.#detail.hidden = at < 0 || at >= this.#order.length;
    if (!this.#detail.hidden) {
      const top = at * ROW_PX;
      const sight = this.#scroll.clientHeight - ROW_PX - 16;
      if (top < this.#scroll.scrollTop) this.#scroll.scrollTop = top;
      else if (top + ROW_PX > this.#scroll.scrollTop + sight) this.#scroll.scrollTop = top + ROW_PX - sight;
      const { rows, whole, series } = this.#direction;
      this.#detail.replaceChildren(
        flowDetail(rows, this.#order[at]!, { whole, series }, () => this.#select(-1)),
      );
    }
    this.#draw();
  }
}
