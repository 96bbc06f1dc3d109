/** The page of `hoptime collect`: is something wrong, where, since when, who suffers, show me the packets. */
import { render } from "preact";
import { startLive } from "./api/live.ts";
import { App } from "./app.tsx";
import { askSegments } from "./parts/segment-select.tsx";
import { watchSettings } from "./state/settings.ts";

watchSettings();
startLive();
// What is newest, before the first epoch comes; who may not ask is told by the screens.
askSegments().catch(() => undefined);
const root = document.getElementById("app");
if (root) render(<App />, root);
