/**
 * Formats an incident as one sentence: "r2 → r3 slow since 14:03:10: 2.1 → 18 ms, 99 % of the rise, 412 flows". Used by the page and the command line, each
 * with its own number format.
 */

interface Ends {
  from: string;
  to: string;
}

export interface DescribedIncident {
  kind: "delay" | "loss" | "clock";
  clock?: { points: readonly string[]; stepNs: number } | null;
  state: "open" | "closed";
  segment: Ends | null;
  paths: readonly string[];
  startNs: string;
  endNs: string;
  /** Delay in ns, or share of packets lost: before, at its worst, in the last epoch. */
  baseline: number;
  peak: number;
  now: number | null;
  share: number | null;
  reason: string | null;
  candidates: readonly Ends[];
  flowCount?: number;
  flows: readonly unknown[];
}

export interface IncidentWords {
  delay: (ns: number) => string;
  share: (share: number) => string;
  count: (n: number) => string;
  /** Formats an instant given in ns since 1970. */
  time: (ns: string) => string;
  /** Formats the duration between two instants. */
  lasting: (startNs: string, endNs: string) => string;
}

/** If the last epoch has less than this share of the rise, its value is not shown as the incident's current one. */
const STILL = 0.5;

export function incidentSentence(incident: DescribedIncident, words: IncidentWords): string {
  const { kind, clock, segment, paths, candidates, state, startNs, endNs, share, reason } = incident;
  if (clock)
    return `clock of ${clock.points.join(" or ")} stepped by ${words.delay(Math.abs(clock.stepNs))} at ${words.time(startNs)}: delays to and from it are off by that`;
  const [likeliest] = candidates;
  const who = segment
    ? `${segment.from} → ${segment.to}`
    : `${paths.join(", ")}${likeliest ? ` (perhaps ${likeliest.from} → ${likeliest.to})` : ""}`;
  const what = kind === "delay" ? "slow" : "losing packets";
  const when =
    state === "open"
      ? `since ${words.time(startNs)}`
      : `from ${words.time(startNs)} for ${words.lasting(startNs, endNs)}`;
  const flows = incident.flowCount ?? incident.flows.length;
  const more = [
    ...(share === null ? [] : [`${Math.floor(100 * share)} % of the rise`]),
    ...(flows === 0 ? [] : [`${words.count(flows)} ${flows === 1 ? "flow" : "flows"}`]),
    ...(segment ? [] : [`undecided${reason ? `: ${reason}` : ""}`]),
  ];
  return `${who} ${state === "open" ? "" : "was "}${what} ${when}: ${[change(incident, words), ...more].join(", ")}`;
}

/** Formats the change, up to the worst value: an ordinary epoch in between must not read as if nothing had happened. */
function change({ kind, state, baseline, peak, now }: DescribedIncident, words: IncidentWords): string {
  // An epoch cut may count a packet a little early, so the usual loss can come out slightly negative: show it as 0.
  const value = (x: number) => (kind === "delay" ? words.delay(x) : words.share(Math.max(0, x)));
  const lost = (x: number) => (x <= 0 ? "nothing" : value(x));
  if (state === "closed")
    return kind === "delay" ? `${value(baseline)} → ${value(peak)}` : `lost ${value(peak)} at worst`;
  const goesOn = now === null || now - baseline >= STILL * (peak - baseline);
  if (kind === "delay")
    return goesOn
      ? `${value(baseline)} → ${value(now ?? peak)}`
      : `${value(baseline)} → ${value(peak)} at worst, ${value(now)} now`;
  if (now === null || value(now) === value(peak)) return `loses ${value(peak)}`;
  return goesOn
    ? `loses ${value(now)}, ${value(peak)} at worst`
    : `lost ${value(peak)} at worst, loses ${lost(now)} now`;
}
