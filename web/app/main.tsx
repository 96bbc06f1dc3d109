/** The page of `hoptime collect`: is something wrong, where, since when, who suffers, show me the packets. */
import { render } from "preact";
import { startLive } from "./api/live.ts";
import { App } from "./app.tsx";
import { askSegments } from "./parts/segment-select.tsx";
import { screenName } from "./state/location.ts";
import { watchSettings } from "./state/settings.ts";
import { newestAsked } from "./state/time-range.ts";

watchSettings();
startLive();
// What is newest, before the first epoch comes; the overview's own answer says it, too. Who may not ask is told by the screens.
if (screenName.value !== "overview")
  askSegments()
    .catch(() => undefined)
    .finally(() => {
      newestAsked.value = true;
    });
const root = document.getElementById("app");
if (root) render(<App />, root);
