/** Compares the estimators with the exact values: one row each with the main results; the other fields follow by name. */
import { formatBytes, formatCount, formatShare } from "../../src/base/quantity.ts";
import { formatNs } from "../../src/base/time.ts";
import type { PageData } from "../../src/present/html/page-data.ts";
import { bdi, type Child, card, el, facts, sentences } from "./elements.ts";
import { protocolName } from "./flow-rows.ts";
import { flatten, readable } from "./unknown-values.ts";

/** The part of src/compare/estimate-report.ts that the page uses; reports of other versions may lack any of these fields. */
interface Known {
  meanNs?: number | null;
  lowNs?: number | null;
  highNs?: number | null;
  reason?: string;
  confidence?: number;
  exactMeanNs?: number | null;
  relativeError?: number | null;
  lost?: number | null;
  exactLost?: number;
  bytes?: number;
  notes?: string[];
  packets?: object;
  flowClasses?: {
    from: number;
    to: number | null;
    flows: number;
    answered: number;
    medianError: number | null;
    p90Error: number | null;
    withinInterval: number | null;
  }[];
  flows?: KnownFlow[];
  reverse?: Known;
}

interface KnownFlow {
  key: Partial<Record<"src" | "dst", string | null> & Record<"proto" | "sport" | "dport", number | null>>;
  meanNs: number | null;
  lowNs: number | null;
  highNs: number | null;
  reason?: string;
  packets: number | null;
  exactMeanNs: number | null;
  relativeError: number | null;
}

const isKnown = (value: unknown): value is Known =>
  typeof value === "object" && value !== null && !Array.isArray(value) && "meanNs" in value;

export function estimates(data: PageData): HTMLElement | null {
  const given = Object.entries(data.estimates ?? {});
  if (given.length === 0) return null;
  const all = given.flatMap(([name, value]) => (isKnown(value) ? [[name, value] as [string, Known]] : []));
  const others = given.filter(([, value]) => !isKnown(value));
  const reversed = all.flatMap(([name, { reverse }]) =>
    reverse ? [[name, reverse] as [string, Known]] : [],
  );
  return card(
    "estimates",
    "Estimates",
    el("p", { class: "lead" }, "Estimates from the same packets, beside the exact values above."),
    all.length > 0 && table(all),
    reversed.length > 0 && [el("h3", { class: "spaced" }, "The other way"), table(reversed)],
    all.map(([name, estimate]) => more(name, estimate)),
    others.map(([name, value]) => otherShape(name, value)),
  );
}

function table(all: [string, Known][]): HTMLElement {
  const head = (text: string, kind = "") => el("th", { scope: "col", class: kind }, text);
  return el(
    "div",
    { class: "scroll-x", tabindex: 0, role: "region", aria: { label: "Estimates" } },
    el(
      "table",
      { class: "small estimates" },
      el(
        "thead",
        {},
        el(
          "tr",
          {},
          head("Estimator", "text"),
          head("Mean delay"),
          head("Exact"),
          head("Error"),
          head("Lost"),
          head("Sent over"),
        ),
      ),
      el(
        "tbody",
        {},
        all.map(([name, e]) =>
          el(
            "tr",
            {},
            el("th", { scope: "row", class: "text" }, bdi(name)),
            el("td", {}, meanText(e)),
            el("td", {}, delay(e.exactMeanNs)),
            el("td", {}, signed(e.relativeError)),
            el("td", {}, lostText(e)),
            el("td", {}, e.bytes === undefined ? "–" : formatBytes(e.bytes)),
          ),
        ),
      ),
    ),
  );
}

const delay = (ns: number | null | undefined): Child =>
  ns === null || ns === undefined ? "–" : formatNs(ns, 4);

function meanText({
  meanNs,
  lowNs,
  highNs,
  reason,
  confidence,
}: Pick<Known, "meanNs" | "lowNs" | "highNs" | "reason" | "confidence">): Child {
  if (meanNs === null || meanNs === undefined) return el("span", { class: "muted" }, reason ?? "no answer");
  if (lowNs === null || lowNs === undefined || highNs === null || highNs === undefined) return delay(meanNs);
  const title = `between ${formatNs(lowNs)} and ${formatNs(highNs)} at ${formatShare(confidence ?? 0.95)} confidence`;
  return el("span", { title }, `${formatNs(meanNs, 4)} ± ${formatNs((highNs - lowNs) / 2, 2)}`);
}

function lostText({ lost, exactLost }: Known): string {
  if (lost === null || lost === undefined) return "–";
  return exactLost === undefined || exactLost === lost
    ? formatCount(lost)
    : `${formatCount(lost)} (exact ${formatCount(exactLost)})`;
}

function signed(error: number | null | undefined): string {
  if (error === null || error === undefined) return "–";
  return `${error < 0 ? "−" : "+"}${formatShare(Math.abs(error))}`;
}

/** Shows fields that another version may have. */
function otherShape(name: string, value: unknown): HTMLElement {
  const rows = flatten(value).map(([path, inner]): [Child, Child] => [
    bdi(path === "" ? "value" : inWords(path)),
    readable(path, inner),
  ]);
  return el("div", { class: "spaced" }, el("h3", {}, bdi(name)), facts(rows, true));
}

/** Names of fields, in this order; other fields are shown by their names in the code. */
const WORDS: Readonly<Record<string, string>> = {
  parameters: "Parameters",
  confidence: "Confidence",
  packetsUsed: "Packets used",
  coverage: "Share of packets used",
  sent: "Sent",
  received: "Received",
  stdevNs: "Standard deviation",
  stdevLowNs: "Standard deviation, lower bound",
  stdevHighNs: "Standard deviation, upper bound",
  stdevReason: "No standard deviation",
  exactStdevNs: "Standard deviation, exact",
  stdevRelativeError: "Standard deviation, error",
  senderBytes: "Bytes of the sender",
  receiverBytes: "Bytes of the receiver",
  flowListBytes: "Bytes of the list of flows",
  bitsPerPacket: "Bits per packet",
  version: "Version",
};
/** Fields that are shown in the table, or below in their own form. */
const SAID = new Set([
  ...["meanNs", "lowNs", "highNs", "reason", "exactMeanNs", "relativeError", "lost", "exactLost", "bytes"],
  ...["notes", "flows", "flowClasses", "packets", "reverse"],
]);
const SHARES = new Set(["confidence", "coverage", "stdevRelativeError"]);
const BYTES = new Set(["senderBytes", "receiverBytes", "flowListBytes"]);

function more(name: string, estimate: Known): HTMLElement {
  const known = Object.keys(WORDS).filter((field) => field in estimate);
  const others = Object.keys(estimate).filter((field) => !(field in WORDS) && !SAID.has(field));
  const rows = [...known, ...others].flatMap((field): [Child, Child][] => {
    const value = estimate[field as keyof Known];
    if (value === null && field !== "stdevNs") return [];
    if (field in WORDS) return [[WORDS[field], shown(field, value)]];
    return flatten(value, field).map(([path, inner]): [Child, Child] => [bdi(path), readable(path, inner)]);
  });
  return el(
    "details",
    { class: "spaced" },
    el("summary", {}, "More of ", bdi(name)),
    estimate.notes && estimate.notes.length > 0 && sentences(estimate.notes),
    facts(rows, true),
    estimate.flowClasses && classes(estimate.flowClasses),
    estimate.flows && flowEstimates(estimate.flows),
    estimate.packets && [
      el("h3", { class: "spaced" }, "Single packets"),
      facts(
        flatten(estimate.packets).map(([path, inner]): [Child, Child] => [
          inWords(path),
          readable(path, inner),
        ]),
        true,
      ),
    ],
  );
}

function shown(field: string, value: unknown): Child {
  if (typeof value === "number" && SHARES.has(field)) return formatShare(value);
  if (typeof value === "number" && BYTES.has(field)) return formatBytes(value);
  return readable(field, value);
}

/** Turns `medianErrorNs` into "median error". */
function inWords(path: string): string {
  return path
    .replace(/Ns$/, "")
    .replaceAll(".", ": ")
    .replace(/([a-z\d])([A-Z])/g, (_, a: string, b: string) => `${a} ${b.toLowerCase()}`);
}

/** The first column contains text. */
function smallTable(label: string, heads: readonly string[], rows: HTMLElement[]): HTMLElement {
  const columns = heads.map((h, i) => el("th", { scope: "col", class: i === 0 ? "text" : "" }, h));
  return el(
    "div",
    { class: "scroll-x spaced", tabindex: 0, role: "region", aria: { label } },
    el("table", { class: "small" }, el("thead", {}, el("tr", {}, columns)), el("tbody", {}, rows)),
  );
}

function classes(list: NonNullable<Known["flowClasses"]>): HTMLElement {
  const share = (value: number | null) => (value === null ? "–" : formatShare(value));
  const heads = [
    "Packets of the flow",
    "Flows",
    "Answered",
    "Median error",
    "p90 error",
    "Exact mean in interval",
  ];
  return smallTable(
    "Errors by size of flow",
    heads,
    list
      .filter((c) => typeof c === "object")
      .map((c) =>
        el(
          "tr",
          {},
          el(
            "th",
            { scope: "row", class: "text" },
            c.to === null
              ? `${formatCount(c.from)} and more`
              : `${formatCount(c.from)} – ${formatCount(c.to)}`,
          ),
          el("td", {}, formatCount(c.flows)),
          el("td", {}, formatCount(c.answered)),
          el("td", {}, share(c.medianError)),
          el("td", {}, share(c.p90Error)),
          el("td", {}, share(c.withinInterval)),
        ),
      ),
  );
}

/** Number of flows shown: the report contains only as many as the page shows. */
const SHOWN_FLOWS = 20;

function flowEstimates(list: NonNullable<Known["flows"]>): HTMLElement | null {
  const flows = list.filter((f) => typeof f === "object" && f !== null && "key" in f).slice(0, SHOWN_FLOWS);
  if (flows.length === 0) return null;
  const heads = ["Flow", "Packets", "Mean delay", "Exact", "Error"];
  return smallTable(
    "Estimates of flows",
    heads,
    flows.map((f) =>
      el(
        "tr",
        {},
        el("th", { scope: "row", class: "text" }, bdi(flowText(f.key))),
        el("td", {}, f.packets === null ? "–" : formatCount(f.packets)),
        el(
          "td",
          {},
          meanText({
            meanNs: f.meanNs,
            lowNs: f.lowNs,
            highNs: f.highNs,
            reason: f.reason ?? "no answer",
          }),
        ),
        el("td", {}, delay(f.exactMeanNs)),
        el("td", {}, signed(f.relativeError)),
      ),
    ),
  );
}

function flowText({ src, dst, proto, sport, dport }: KnownFlow["key"]): string {
  const end = (address: string | null | undefined, port: number | null | undefined) => {
    const text = address ?? "any";
    if (port === null || port === undefined) return text;
    return text.includes(":") ? `[${text}]:${port}` : `${text}:${port}`;
  };
  const ends = `${end(src, sport)} > ${end(dst, dport)}`;
  return proto === null || proto === undefined ? ends : `${protocolName(proto)} ${ends}`;
}
