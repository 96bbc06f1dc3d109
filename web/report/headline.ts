/** The top of the page: files, time, the main results as tiles, and important warnings. */

import { formatCount, formatShare } from "../../src/base/quantity.ts";
import { formatInstant, formatNs } from "../../src/base/time.ts";
import type { CaptureSummary, SegmentReport } from "../../src/compare/report.ts";
import type { PageData } from "../../src/present/html/page-data.ts";
import { bdi, type Child, el } from "./elements.ts";

export const baseName = (path: string): string => path.split(/[\\/]/).pop() || path;

type Tone = "good" | "warn" | "bad" | "loss" | "plain";

interface Tile {
  name: string;
  value: string;
  detail?: Child;
  tone?: Tone;
  href?: string;
}

export function header(data: PageData, actions: Child = null): HTMLElement {
  const copied = el("span", { class: "copied", role: "status", aria: { live: "polite" } });
  return el(
    "header",
    { class: "head" },
    el(
      "div",
      { class: "head-text" },
      el("p", { class: "brand" }, "hoptime compare"),
      el(
        "h1",
        {},
        bdi(baseName(data.before.file)),
        el("span", { class: "arrow", aria: { label: "to" } }, " → "),
        bdi(baseName(data.after.file)),
      ),
      el("p", { class: "span" }, spanText(data)),
    ),
    el(
      "div",
      { class: "head-actions" },
      copied,
      actions,
      el(
        "button",
        {
          type: "button",
          class: "plain-button",
          on: {
            click: () => {
              copyText(summaryText(data)).then(
                () => (copied.textContent = "Copied"),
                () => (copied.textContent = "Could not copy"),
              );
            },
          },
        },
        "Copy summary",
      ),
      el("button", { type: "button", class: "plain-button", on: { click: () => print() } }, "Print"),
    ),
  );
}

function span(data: PageData): { first: bigint; last: bigint } | null {
  let whole: { first: bigint; last: bigint } | null = null;
  for (const { firstNs, lastNs } of [data.before, data.after]) {
    if (firstNs === null || lastNs === null) continue;
    const [first, last] = [BigInt(firstNs), BigInt(lastNs)];
    whole ??= { first, last };
    if (first < whole.first) whole.first = first;
    if (last > whole.last) whole.last = last;
  }
  return whole;
}

function spanText(data: PageData): string {
  const time = span(data);
  if (!time) return "Neither capture contains a packet.";
  const { first, last } = time;
  const from = formatInstant(first);
  const to = formatInstant(last);
  // The date is not repeated.
  const end = from.slice(0, 10) === to.slice(0, 10) ? to.slice(11) : to;
  return `${from} – ${end} UTC · ${formatNs(Number(last - first), 3)}`;
}

/** Colours of the clock verdicts (src/clock/verdict.ts); an unknown verdict has no colour. */
const TRUST_TONES: Record<string, Tone> = {
  good: "good",
  usable: "plain",
  doubtful: "warn",
  unusable: "bad",
};

export function tiles(segment: SegmentReport, clock: PageData["clock"] | null): HTMLElement {
  const { latency } = segment;
  const list: Tile[] = [];
  if (latency) {
    list.push(
      {
        name: "Median delay (p50)",
        value: formatNs(latency.p50Ns),
        detail: `min ${formatNs(latency.minNs, 3)}`,
      },
      {
        name: "Mean delay",
        value: formatNs(latency.meanNs),
        detail: `± ${formatNs(latency.stdevNs, 3)} std. deviation`,
      },
      {
        name: "p99 delay",
        value: formatNs(latency.p99Ns),
        detail: `p99.9 ${formatNs(latency.p999Ns, 3)} · max ${formatNs(latency.maxNs, 3)}`,
      },
    );
  } else {
    list.push({
      name: "Delay",
      value: "No answer",
      detail: segment.reason ?? "no reason was given",
      tone: "warn",
    });
  }
  list.push(
    segment.lossRate === null
      ? { name: "Loss", value: "No answer", detail: "no packet could have arrived", tone: "warn" }
      : {
          name: "Loss",
          value: formatShare(segment.lossRate),
          detail:
            `${formatCount(segment.lost)} of ${formatCount(segment.lost + segment.matched)} packets` +
            (segment.undecided > 0 ? `, ${formatCount(segment.undecided)} undecided at the ends` : ""),
          tone: segment.lost === 0 ? "good" : "loss",
        },
  );
  if (clock) {
    list.push({
      name: "Clocks",
      value: clock.trust,
      detail: clock.lines[0] ?? `mode ${clock.mode}`,
      tone: TRUST_TONES[clock.trust] ?? "plain",
      href: "#clocks",
    });
  }
  return el(
    "div",
    { class: "tiles" },
    list.map((tile) => {
      const inside = [
        el("span", { class: "tile-name" }, tile.name),
        el("span", { class: "tile-value" }, tile.value),
        el("span", { class: "tile-detail" }, tile.detail ?? null),
      ];
      const props = { class: `tile ${tile.tone ?? "plain"}` };
      return tile.href ? el("a", { ...props, href: tile.href }, inside) : el("div", props, inside);
    }),
  );
}

export function warnings(data: PageData): HTMLElement[] {
  const { segment, direction } = data;
  const list: { title: string; lines: string[] }[] = [];
  if (segment.matched === 0) {
    list.push({ title: "No packet was seen in both captures", lines: whyNothing(data) });
  }
  if (data.lossDoubt !== null && segment.matched > 0) {
    list.push({ title: "The loss is probably not real", lines: [data.lossDoubt] });
  }
  if (data.reverseLossDoubt !== null) {
    list.push({ title: "The reverse loss is probably not real", lines: [data.reverseLossDoubt] });
  }
  if (direction.order === "swapped") {
    list.push({
      title: "The files look swapped: the second seems to be the earlier point",
      lines: direction.evidence,
    });
  } else if (direction.order === "unclear" && segment.matched > 0) {
    list.push({ title: "It is not clear which file is the earlier point", lines: direction.evidence });
  }
  for (const capture of [data.before, data.after]) {
    if (capture.partial !== null) {
      list.push({
        title: `${baseName(capture.file)} could not be read to its end`,
        lines: [capture.partial],
      });
    }
  }
  return list.map(({ title, lines }) =>
    el(
      "div",
      { class: "warning", role: "note" },
      el("strong", {}, title),
      lines.map((line) => el("p", {}, line)),
    ),
  );
}

/** Reasons, from counts and times, why nothing matched. */
function whyNothing(data: PageData): string[] {
  const { before, after, segment } = data;
  const lines = segment.reason && !/seen in both/i.test(segment.reason) ? [segment.reason] : [];
  for (const capture of [before, after]) {
    if (capture.packets === 0) lines.push(`${baseName(capture.file)} holds no packet.`);
    else if (capture.ipPackets === 0) lines.push(`${baseName(capture.file)} contains no IP packets.`);
  }
  const gap = spanGapNs(before, after);
  if (gap !== null) {
    lines.push(
      `The captures do not overlap: ${formatNs(gap, 3)} lie between the end of one and the start of the other.`,
    );
  }
  if (lines.length === 0) {
    lines.push(
      "Check that both captures contain the same traffic: NAT, tunnels and proxies change packets on the way.",
    );
  }
  return lines;
}

/** Returns the ns between the end of one capture and the start of the other; null if they overlap or are empty. */
function spanGapNs(a: CaptureSummary, b: CaptureSummary): number | null {
  if (a.firstNs === null || a.lastNs === null || b.firstNs === null || b.lastNs === null) return null;
  const gaps = [BigInt(b.firstNs) - BigInt(a.lastNs), BigInt(a.firstNs) - BigInt(b.lastNs)];
  const gap = gaps.find((ns) => ns > 0n);
  return gap === undefined ? null : Number(gap);
}

/** Plain text for a ticket or a chat. */
function summaryText(data: PageData): string {
  const line = (segment: SegmentReport): string[] => {
    const l = segment.latency;
    return [
      l
        ? `  delay: mean ${formatNs(l.meanNs)}, p50 ${formatNs(l.p50Ns)}, p90 ${formatNs(l.p90Ns)}, p99 ${formatNs(l.p99Ns)}, max ${formatNs(l.maxNs)}`
        : `  delay: no answer (${segment.reason ?? "no reason was given"})`,
      `  packets: ${formatCount(segment.sent)} sent, ${formatCount(segment.matched)} matched, ${formatCount(segment.lost)} lost` +
        (segment.lossRate === null ? "" : ` (${formatShare(segment.lossRate)})`),
    ];
  };
  return [
    `hoptime compare ${data.hoptime}: ${data.before.file} → ${data.after.file}`,
    `  ${spanText(data)}`,
    ...line(data.segment),
    ...(data.reverse ? ["the other way:", ...line(data.reverse)] : []),
    `clocks: ${data.clock.trust}`,
    ...data.clock.lines.map((l) => `  ${l}`),
    ...data.notes.map((note) => `note: ${note}`),
  ]
    .join("\n")
    .replaceAll("\u202f", " ");
}

async function copyText(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Pages opened from disk may lack the modern clipboard API.
    const area = el("textarea", { class: "unseen" });
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    if (!done) throw new Error("the browser refused");
  }
}
