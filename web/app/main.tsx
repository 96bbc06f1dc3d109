/** The page of `hoptime collect`. It answers: is something wrong, where, since when, which flows are affected, and which packets. */
import { render } from "preact";
import { startLive } from "./api/live.ts";
import { App } from "./app.tsx";
import { askSegments } from "./parts/segment-select.tsx";
import { screenName } from "./state/location.ts";
import { watchSettings } from "./state/settings.ts";
import { newestAsked } from "./state/time-range.ts";

watchSettings();
startLive();
// Finds the newest data before the first epoch arrives. The overview's own answer contains it too. If access is denied, the screens say so.
if (screenName.value !== "overview")
  askSegments()
    .catch(() => undefined)
    .finally(() => {
      newestAsked.value = true;
    });
const root = document.getElementById("app");
if (root) render(<App />, root);
