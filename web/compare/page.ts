/** Compares two captures in the browser: the form, its worker, and the report from the worker. Works alone, or inside the collector's page. */
import { countOf, formatCount, formatShare } from "../../src/base/quantity.ts";
import { VERSION } from "../../src/base/version.ts";
import { append, card, el } from "../report/elements.ts";
import { type MainTag, reportParts } from "../report/report.ts";
import { commandLine } from "./command.ts";
import { CaptureForm } from "./form.ts";
import type { Answer, Order, Wishes } from "./messages.ts";

export interface Place {
  page: HTMLElement;
  startWorker(): Promise<Worker>;
  /** The surrounding page already has a main element. */
  inside: boolean;
}

export class ComparePage {
  readonly #place: Place;
  readonly #form: CaptureForm;
  readonly #footer: HTMLElement;
  #worker: Worker | null = null;

  constructor(place: Place) {
    this.#place = place;
    this.#form = new CaptureForm(() => this.#start(), this.#tag);
    this.#footer = el(
      "footer",
      {},
      `hoptime ${VERSION} · captures stay in this browser: nothing is sent · all times UTC`,
    );
    this.#showForm();
  }

  get #tag(): MainTag {
    return this.#place.inside ? "section" : "main";
  }

  #show(ready: "form" | "busy" | "report", title: string, parts: HTMLElement[]): void {
    this.#place.page.replaceChildren(...parts, this.#footer);
    this.#ready(ready);
    if (this.#place.page.isConnected) document.title = title;
  }

  #ready(state: "form" | "busy" | "report"): void {
    const root = this.#place.inside ? this.#place.page : document.documentElement;
    root.setAttribute("data-ready", state);
  }

  #showForm(): void {
    this.#show("form", "Compare two captures · hoptime", [this.#form.root]);
    this.#form.settle();
  }

  #start(): void {
    const { files, wishes } = this.#form;
    const bytes = files.reduce((sum, file) => sum + file.size, 0);
    const bar = el("progress", { aria: { label: "Bytes read" } });
    bar.max = bytes;
    const words = el("p", { class: "doing", role: "status" }, "Starting …");
    const cancel = button("Cancel", () => this.#stop());
    this.#ready("busy");
    this.#form.showProgress(bar, words, cancel);
    void this.#started().then(
      (worker) =>
        this.#listen(worker, { files, wishes }, (doneBytes, packets) => {
          // If the captures are read a second time, the bar starts again.
          bar.value = doneBytes;
          words.textContent = `${countOf(packets, "packet")}, ${formatShare(doneBytes / Math.max(1, bytes))} of the bytes`;
        }),
      (error: Error) => this.#fail({ problem: error.message, hint: null, field: null }),
    );
  }

  async #started(): Promise<Worker> {
    this.#worker ??= await this.#place.startWorker();
    return this.#worker;
  }

  #listen(
    worker: Worker,
    order: { files: File[]; wishes: Wishes },
    progress: (doneBytes: number, packets: number) => void,
  ): void {
    worker.onmessage = ({ data: answer }: MessageEvent<Answer>) => {
      if (answer.kind === "progress") progress(answer.doneBytes, answer.packets);
      else if (answer.kind === "error") this.#fail(answer);
      else if (answer.kind === "report") this.#report(answer);
      else if (answer.kind === "export") save(answer);
    };
    worker.onerror = (event) =>
      this.#fail({
        ...{ problem: event.message || "the browser does not run the worker", hint: null, field: null },
      });
    this.#send({ kind: "compare", ...order });
  }

  #send(order: Order): void {
    this.#worker?.postMessage(order);
  }

  #stop(): void {
    this.#worker?.terminate();
    this.#worker = null;
    this.#showForm();
  }

  #fail({ problem, hint, field }: { problem: string; hint: string | null; field: string | null }): void {
    this.#showForm();
    this.#form.showError(problem, hint, field);
  }

  #report({ data, seconds }: Answer & { kind: "report" }): void {
    const form = this.#form;
    const count = data.before.packets + data.after.packets;
    const rate = `${countOf(count, "packet")} in ${seconds.toFixed(seconds < 10 ? 2 : 0)} s (${formatCount(Math.round(count / Math.max(seconds, 1e-3)))} packets/s)`;
    const actions = [
      button("Compare others", () => this.#showForm()),
      button("Swap", () => {
        form.swap();
        this.#showForm();
        this.#start();
      }),
      button("Save JSON", () => this.#send({ kind: "export", form: "json" })),
      button("Save CSV", () => this.#send({ kind: "export", form: "csv" })),
    ];
    const [header, main] = reportParts(
      data,
      form.files.length === 2 ? actions : actions.toSpliced(1, 1),
      this.#tag,
    );
    const names = form.files.map((file) => file.name);
    append(main, [
      card(
        "command",
        "The same on the command line",
        el("pre", {}, commandLine(names, form.wishes)),
        el("p", { class: "lead" }, `Here: ${rate}.`),
      ),
    ]);
    this.#show("report", `${data.before.file} → ${data.after.file} · hoptime compare`, [header, main]);
    if (!main.isConnected) return;
    scrollTo(0, 0);
    main.focus({ preventScroll: true });
  }
}

function button(text: string, click: () => void): HTMLElement {
  return el("button", { type: "button", class: "plain-button", on: { click } }, text);
}

function save({ form: ending, blob }: Answer & { kind: "export" }): void {
  const url = URL.createObjectURL(blob);
  const link = el("a", { href: url });
  link.download = `hoptime-compare.${ending}`;
  link.click();
  // By then the browser has started to read it.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
