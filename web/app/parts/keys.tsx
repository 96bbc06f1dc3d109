/** Keyboard shortcuts of the page. */
import { signal } from "@preact/signals";
import { go, hrefTo, place, screenName, setParams } from "../state/location.ts";
import { move, pausedAtMs, timeRange, zoom } from "../state/time-range.ts";

export const helpShown = signal(false);

const KEYS: readonly (readonly [string, string])[] = [
  ["/", "search"],
  ["j, k", "next and previous row"],
  ["Enter", "open the row"],
  ["Esc", "close, clear, or go back to the overview"],
  ["w, s", "zoom in and out in time"],
  ["a, d", "move back and forward in time"],
  ["p", "pause and resume"],
  ["← →", "on a chart: move the read-out"],
  ["?", "this list"],
];

/** The keys j and k move through links and buttons of this class. */
const ROW = ".row-link";

function walk(by: number): void {
  const rows = [...document.querySelectorAll<HTMLElement>(ROW)];
  const at = rows.indexOf(document.activeElement as HTMLElement);
  const next = at < 0 ? rows[0] : rows[at + by];
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
}

function leave(): void {
  if (helpShown.value) helpShown.value = false;
  else if (place.value.params.has("q")) setParams({ q: null });
  else if (screenName.value !== "overview") go(hrefTo(["overview"]));
}

const ACTIONS: Readonly<Record<string, () => void>> = {
  "/": () => document.getElementById("search")?.focus(),
  "?": () => {
    helpShown.value = !helpShown.value;
  },
  j: () => walk(1),
  k: () => walk(-1),
  w: () => zoom(0.5),
  s: () => zoom(2),
  a: () => move(-0.25),
  d: () => move(0.25),
  p: () => {
    pausedAtMs.value = pausedAtMs.value === null ? timeRange.value.toMs : null;
  },
  Escape: leave,
};

export function watchKeys(): () => void {
  const onKey = (event: KeyboardEvent) => {
    const { key } = event;
    // For targets inside a shadow tree (Compare), only composedPath shows the real one.
    const [target] = event.composedPath();
    const typing = target instanceof HTMLElement && target.matches("input, select, textarea");
    if (event.ctrlKey || event.metaKey || event.altKey || typing) return;
    const action = ACTIONS[key];
    if (!action) return;
    event.preventDefault();
    action();
  };
  addEventListener("keydown", onKey);
  return () => removeEventListener("keydown", onKey);
}

export function Help() {
  return (
    <aside class="dock" aria-label="Keys">
      <h2>Keys</h2>
      <dl class="keys">
        {KEYS.map(([key, what]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
      <button type="button" class="plain-button" onClick={() => (helpShown.value = false)}>
        Close
      </button>
    </aside>
  );
}
