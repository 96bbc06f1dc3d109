/** The form: which captures, and how to compare them. Captures can be dropped anywhere on the page, or selected. */
import { formatBytes } from "../../src/base/quantity.ts";
import { CORRECTION_MODES, type CorrectionMode } from "../../src/clock/correction.ts";
import { bdi, type Child, el } from "../report/elements.ts";
import type { MainTag } from "../report/report.ts";
import type { Wishes } from "./messages.ts";

export const DEFAULT_WISHES: Wishes = {
  window: "",
  epoch: "",
  clock: "asis",
  key: "",
  filter: "",
  inner: false,
  nat: false,
};

const CLOCK_WORDS: Readonly<Record<CorrectionMode, string>> = {
  asis: "none: as captured",
  deskew: "deskew: offset and drift, where packets go both ways",
  detrend: "detrend: drift only",
  relative: "relative: above the smallest delay",
};

const SIDES = [
  { name: "Before", what: "capture at the first point" },
  { name: "After", what: "capture at the second point" },
] as const;

export class CaptureForm {
  readonly root: HTMLElement;
  readonly #files: (File | null)[] = [null, null];
  readonly #slots: HTMLElement[];
  readonly #fields = new Map<string, HTMLInputElement | HTMLSelectElement>();
  readonly #go: HTMLButtonElement;
  readonly #state: HTMLElement;

  constructor(start: () => void, tag: MainTag) {
    this.#slots = SIDES.map(({ name, what }, side) => this.#slot(name, what, side));
    this.#go = el("button", { type: "submit", class: "go" }, "Compare");
    this.#state = el("div", { class: "state" });
    const form = el(
      "form",
      { class: "card captures", on: { submit: (event) => event.preventDefault() } },
      el("div", { class: "slots" }, this.#slots),
      this.#options(),
      el("div", { class: "send" }, this.#go, this.#state),
    );
    form.addEventListener("submit", start);
    this.root = el(
      tag,
      { id: "main", tabindex: -1, aria: { label: "Captures" } },
      el(
        "header",
        { class: "head-text" },
        el("p", { class: "brand" }, "hoptime compare"),
        el("h1", {}, "Compare two captures"),
        el(
          "p",
          { class: "lead" },
          "Drop the captures of two points on this page: one-way delay, loss and reordering between them, per flow and over time. pcap, pcapng or ERF, plain or gzip; or one file with two interfaces. Captures are read here, in the browser: nothing is sent.",
        ),
      ),
      form,
    );
    this.#acceptDrops();
    this.#draw();
  }

  get files(): File[] {
    return this.#files.filter((file) => file !== null);
  }

  get wishes(): Wishes {
    const text = (name: string) => this.#fields.get(name)?.value.trim() ?? "";
    const checked = (name: string) => (this.#fields.get(name) as HTMLInputElement).checked;
    return {
      window: text("window"),
      epoch: text("epoch"),
      clock: text("clock") as CorrectionMode,
      key: text("key"),
      filter: text("filter"),
      inner: checked("inner"),
      nat: checked("nat"),
    };
  }

  swap(): void {
    this.#files.reverse();
    this.#draw();
  }

  /** The comparison has ended. */
  settle(): void {
    this.#state.replaceChildren();
    this.#draw();
  }

  showProgress(...parts: HTMLElement[]): void {
    this.#go.disabled = true;
    this.#state.replaceChildren(...parts);
  }

  showError(problem: string, hint: string | null, field: string | null): void {
    const at = field === null ? undefined : this.#fields.get(field);
    this.#state.replaceChildren(
      el(
        "div",
        { class: "warning", role: "alert" },
        el("strong", {}, field === null ? problem : `${field}: ${problem}`),
        hint !== null && el("pre", {}, hint),
      ),
    );
    if (!at) return;
    at.closest("details")?.setAttribute("open", "");
    at.focus();
  }

  #slot(name: string, what: string, side: number): HTMLElement {
    const input = el("input", { type: "file", id: `file-${side}`, class: "unseen" });
    input.addEventListener("change", () => {
      this.#put(side, [...(input.files ?? [])]);
      // Allows selecting the same file again.
      input.value = "";
    });
    return el(
      "label",
      { class: "slot", for: `file-${side}` },
      input,
      el("span", { class: "slot-name" }, name),
      el("span", { class: "slot-file" }),
      el("span", { class: "slot-what" }, what),
    );
  }

  #put(side: number, given: File[]): void {
    for (const [i, file] of given.slice(0, 2).entries()) this.#files[(side + i) % 2] = file;
    this.#draw();
  }

  #draw(): void {
    for (const [side, slot] of this.#slots.entries()) {
      const file = this.#files[side];
      slot.toggleAttribute("data-filled", file !== null);
      slot
        .querySelector(".slot-file")
        ?.replaceChildren(
          ...(file ? [bdi(file.name), ` ${formatBytes(file.size)}`] : ["Drop a capture, or choose a file"]),
        );
    }
    this.#go.disabled = this.files.length === 0;
    this.#go.textContent = this.files.length === 1 ? "Compare its two interfaces" : "Compare";
  }

  #options(): HTMLElement {
    const field = (
      name: string,
      label: string,
      input: HTMLInputElement | HTMLSelectElement,
      help: string,
    ) => {
      this.#fields.set(name, input);
      return el("label", { class: "field" }, el("span", {}, label), input, el("small", {}, help));
    };
    const text = (placeholder: string) => el("input", { type: "text", placeholder, spellcheck: false });
    const tick = (name: string, label: string): Child => {
      const input = el("input", { type: "checkbox" });
      this.#fields.set(name, input);
      return el("label", { class: "tick" }, input, label);
    };
    const clock = el(
      "select",
      {},
      CORRECTION_MODES.map((mode) => {
        const option = el("option", {}, CLOCK_WORDS[mode]);
        option.value = mode;
        return option;
      }),
    );
    return el(
      "details",
      { class: "options" },
      el("summary", {}, "Options"),
      el(
        "div",
        { class: "fields" },
        field(
          "filter",
          "Filter",
          text("udp and dst net 10.2.0.0/16"),
          "only packets that match (pcap-filter)",
        ),
        field("clock", "Clock correction", clock, "clocks that differ or drift"),
        field("key", "Flow key", text("5tuple"), "5tuple, hosts, src/24, ports, dscp, vlan …"),
        field("window", "Longest delay", text("10s"), "longest delay that is matched"),
        field("epoch", "Intervals", text("by length"), "10ms, 1s …"),
        el(
          "div",
          { class: "ticks" },
          tick("nat", "Addresses or ports are translated on the way (NAT)"),
          tick("inner", "Use the packet inside tunnels"),
        ),
      ),
    );
  }

  #acceptDrops(): void {
    const over = (event: DragEvent) => {
      if (!this.root.isConnected || !event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      this.root.toggleAttribute("data-over", true);
    };
    addEventListener("dragenter", over);
    addEventListener("dragover", over);
    addEventListener("dragleave", (event) => {
      if (event.relatedTarget === null) this.root.toggleAttribute("data-over", false);
    });
    addEventListener("drop", (event) => {
      if (!this.root.isConnected) return;
      event.preventDefault();
      this.root.toggleAttribute("data-over", false);
      const given = [...(event.dataTransfer?.files ?? [])];
      const [target] = event.composedPath();
      const slot = (target as Element | null)?.closest?.(".slot");
      const side = slot
        ? this.#slots.indexOf(slot as HTMLElement)
        : this.files.length === 1 && this.#files[0]
          ? 1
          : 0;
      if (given.length > 0) this.#put(given.length > 1 ? 0 : side, given);
    });
  }
}
