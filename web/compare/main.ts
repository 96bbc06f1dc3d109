/** Two captures in, their report out, all in the browser: the form, its worker, and the report that the worker answers with. */
import { formatCount, formatShare } from "../../src/base/quantity.ts";
import { VERSION } from "../../src/base/version.ts";
import { watchPrinting } from "../design/theme.ts";
import { append, card, el } from "../report/elements.ts";
import { reportParts } from "../report/report.ts";
import { commandLine } from "./command.ts";
import { CaptureForm } from "./form.ts";
import type { Answer, Order, Wishes } from "./messages.ts";

watchPrinting();
const page = document.getElementById("page")!;
const root = document.documentElement;
const footer = el(
  "footer",
  {},
  `hoptime ${VERSION} · captures stay in this browser: nothing is sent · all times UTC`,
);
const form = new CaptureForm(start);
let worker: Worker | null = null;
showForm();

function showForm(): void {
  document.title = "Compare two captures · hoptime";
  page.replaceChildren(backLink(), form.root, footer);
  form.settle();
  root.setAttribute("data-ready", "form");
}

/** Where a collector serves this page, its own page is one step back. */
function backLink(): HTMLElement | string {
  if (new URLSearchParams(location.search).get("from") !== "collector") return "";
  return el("p", { class: "back" }, el("a", { href: "../" }, "← The collector's page"));
}

function start(): void {
  const { files, wishes } = form;
  const bytes = files.reduce((sum, file) => sum + file.size, 0);
  const bar = el("progress", { aria: { label: "Bytes read" } });
  bar.max = bytes;
  const words = el("p", { class: "doing", role: "status" }, "Starting …");
  const cancel = el(
    "button",
    { type: "button", class: "plain-button", on: { click: () => stop() } },
    "Cancel",
  );
  root.setAttribute("data-ready", "busy");
  form.showProgress(bar, words, cancel);
  void startWorker().then(
    (started) =>
      listen(started, { files, wishes }, (doneBytes, packets) => {
        // Where the captures are read once more, it begins again.
        bar.value = doneBytes;
        words.textContent = `${formatCount(packets)} packets, ${formatShare(doneBytes / Math.max(1, bytes))} of the bytes`;
      }),
    (error: Error) => fail({ problem: error.message, hint: null, field: null }),
  );
}

function listen(
  started: Worker,
  order: { files: File[]; wishes: Wishes },
  progress: (doneBytes: number, packets: number) => void,
): void {
  started.onmessage = ({ data: answer }: MessageEvent<Answer>) => {
    if (answer.kind === "progress") progress(answer.doneBytes, answer.packets);
    else if (answer.kind === "error") fail(answer);
    else if (answer.kind === "report") show(answer);
    else if (answer.kind === "export") save(answer);
  };
  started.onerror = (event) =>
    fail({ problem: event.message || "the browser does not run the worker", hint: null, field: null });
  worker = started;
  send({ kind: "compare", ...order });
}

function send(order: Order): void {
  worker?.postMessage(order);
}

/** Its program stands in the page, packed: a page that was opened from disk may load nothing. */
async function startWorker(): Promise<Worker> {
  if (worker) return worker;
  const packed = Uint8Array.from(atob(document.getElementById("worker")?.textContent ?? ""), (c) =>
    c.charCodeAt(0),
  );
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const program = await new Response(stream).blob();
  const url = URL.createObjectURL(new Blob([program], { type: "text/javascript" }));
  const started = new Worker(url);
  URL.revokeObjectURL(url);
  return started;
}

function stop(): void {
  worker?.terminate();
  worker = null;
  showForm();
}

function fail({
  problem,
  hint,
  field,
}: {
  problem: string;
  hint: string | null;
  field: string | null;
}): void {
  showForm();
  form.showError(problem, hint, field);
}

function show({ data, seconds }: Answer & { kind: "report" }): void {
  const count = data.before.packets + data.after.packets;
  const rate = `${formatCount(count)} packets in ${seconds.toFixed(seconds < 10 ? 2 : 0)} s (${formatCount(Math.round(count / Math.max(seconds, 1e-3)))} packets/s)`;
  const button = (text: string, click: () => void) =>
    el("button", { type: "button", class: "plain-button", on: { click } }, text);
  const actions = [
    button("Compare others", showForm),
    button("Swap", () => {
      form.swap();
      showForm();
      start();
    }),
    button("Save JSON", () => send({ kind: "export", form: "json" })),
    button("Save CSV", () => send({ kind: "export", form: "csv" })),
  ];
  const [header, main] = reportParts(data, form.files.length === 2 ? actions : actions.toSpliced(1, 1));
  append(main, [
    card(
      "command",
      "The same on the command line",
      el(
        "pre",
        {},
        commandLine(
          form.files.map((file) => file.name),
          form.wishes,
        ),
      ),
      el("p", { class: "lead" }, `Here: ${rate}.`),
    ),
  ]);
  page.replaceChildren(backLink(), header, main, footer);
  document.title = `${data.before.file} → ${data.after.file} · hoptime compare`;
  root.setAttribute("data-ready", "report");
  scrollTo(0, 0);
  main.focus();
}

function save({ form: ending, blob }: Answer & { kind: "export" }): void {
  const url = URL.createObjectURL(blob);
  const link = el("a", { href: url });
  link.download = `hoptime-compare.${ending}`;
  link.click();
  // The browser has begun to read it by then.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
