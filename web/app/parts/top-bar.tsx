/** Time range, search, live or paused, time zone and colours. */
import { liveReason, liveState } from "../api/live.ts";
import { collectorNowMs } from "../state/clock.ts";
import { go, hrefTo, param, screenName, setParams } from "../state/location.ts";
import { theme, utc } from "../state/settings.ts";
import { chosenLast, LASTS, newestMs, pausedAtMs, showLast, timeRange } from "../state/time-range.ts";
import { helpShown } from "./keys.tsx";
import { agoText, spanText, timeTitle } from "./text.ts";

/** Screens with a list that the search filters; elsewhere Enter searches the overview. */
const SEARCHED = new Set(["overview", "flows", "taps", "map"]);

export function TopBar() {
  return (
    <header class="top-bar">
      <input
        id="search"
        type="search"
        placeholder="Search   /"
        aria-label="Search"
        value={param("q") ?? ""}
        onInput={(e) => SEARCHED.has(screenName.value) && setParams({ q: e.currentTarget.value }, true)}
        onKeyDown={(e) => {
          if (e.key === "Enter" && !SEARCHED.has(screenName.value))
            go(hrefTo(["overview"], { q: e.currentTarget.value }));
          if (e.key === "Escape") e.currentTarget.blur();
        }}
      />
      {screenName.value !== "compare" && <Range />}
      <span class="spread" />
      <button
        type="button"
        class="plain-button"
        aria-pressed={utc.value}
        onClick={() => (utc.value = !utc.value)}
      >
        UTC
      </button>
      <select
        aria-label="Colours"
        class="wide-only"
        value={theme.value}
        onChange={(e) => (theme.value = e.currentTarget.value as typeof theme.value)}
      >
        <option value="system">System colours</option>
        <option value="light">Light</option>
        <option value="dark">Dark</option>
      </select>
      <button
        type="button"
        class="plain-button wide-only"
        aria-label="Keys"
        onClick={() => (helpShown.value = true)}
      >
        ?
      </button>
    </header>
  );
}

function Range() {
  const { fromMs, toMs } = timeRange.value;
  const fixed = param("since") !== null;
  return (
    <>
      <select
        aria-label="Time range"
        value={fixed ? "fixed" : chosenLast.value}
        onChange={(e) => e.currentTarget.value !== "fixed" && showLast(e.currentTarget.value)}
      >
        {LASTS.map(([name]) => (
          <option key={name} value={name}>
            Last {name}
          </option>
        ))}
        {fixed && <option value="fixed">Chosen span</option>}
      </select>
      <span class="range" title={`${timeTitle(fromMs)} to ${timeTitle(toMs)}`}>
        {spanText(fromMs, toMs)}
      </span>
      <Live fixed={fixed} />
    </>
  );
}

const OLD_MS = 120_000;

function Live({ fixed }: { fixed: boolean }) {
  if (fixed)
    return (
      <button type="button" class="plain-button" onClick={() => showLast(chosenLast.value)}>
        Back to live
      </button>
    );
  const state = liveState.value;
  const paused = pausedAtMs.value !== null;
  const old = newestMs.value > 0 && collectorNowMs() - newestMs.value > OLD_MS;
  const words = paused
    ? "Paused"
    : state !== "live"
      ? state === "connecting"
        ? "Connecting"
        : "Not connected"
      : old
        ? `Newest data ${agoText(newestMs.value, collectorNowMs())}`
        : "Live";
  return (
    <>
      <span
        class={`live ${paused || old ? "still" : state}`}
        role="status"
        title={state === "broken" ? liveReason.value : ""}
      >
        {words}
      </span>
      <button
        type="button"
        class="plain-button"
        onClick={() => (pausedAtMs.value = paused ? null : timeRange.value.toMs)}
      >
        {paused ? "Go on" : "Pause"}
      </button>
    </>
  );
}
