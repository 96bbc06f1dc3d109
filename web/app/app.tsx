/** The frame of the page: rail, time range and search at the top, and one screen. */
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { tokenNeeded } from "./api/live.ts";
import { Help, helpShown, watchKeys } from "./parts/keys.tsx";
import { Rail } from "./parts/rail.tsx";
import { Empty } from "./parts/states.tsx";
import { TokenForm } from "./parts/token-form.tsx";
import { TopBar } from "./parts/top-bar.tsx";
import { AlertsScreen } from "./screens/alerts.tsx";
import { CompareScreen } from "./screens/compare.tsx";
import { FlowsScreen } from "./screens/flows.tsx";
import { MapScreen } from "./screens/map.tsx";
import { OverviewScreen } from "./screens/overview.tsx";
import { PacketsScreen } from "./screens/packets.tsx";
import { SegmentScreen } from "./screens/segment.tsx";
import { TapsScreen } from "./screens/taps.tsx";
import { hrefTo, screenName } from "./state/location.ts";

const SCREENS: Readonly<Record<string, { title: string; show: () => JSX.Element }>> = {
  overview: { title: "Overview", show: () => <OverviewScreen /> },
  segment: { title: "Segment", show: () => <SegmentScreen /> },
  map: { title: "Map", show: () => <MapScreen /> },
  flows: { title: "Flows", show: () => <FlowsScreen /> },
  packets: { title: "Packets", show: () => <PacketsScreen /> },
  taps: { title: "Taps", show: () => <TapsScreen /> },
  alerts: { title: "Alerts", show: () => <AlertsScreen /> },
  compare: { title: "Compare", show: () => <CompareScreen /> },
};

export function App() {
  useEffect(watchKeys, []);
  const screen = SCREENS[screenName.value];
  useEffect(() => {
    document.title = `${screen?.title ?? "Not found"} · hoptime`;
  }, [screen]);
  return (
    <>
      <a class="skip" href="#content" onClick={skip}>
        Skip to the content
      </a>
      <Rail />
      <TopBar />
      <main id="content" tabIndex={-1}>
        {tokenNeeded.value !== null ? (
          <TokenForm reason={tokenNeeded.value} />
        ) : screen ? (
          screen.show()
        ) : (
          <Empty title="There is no such screen">
            <a href={hrefTo(["overview"])}>Go to the overview</a>
          </Empty>
        )}
      </main>
      {helpShown.value && <Help />}
    </>
  );
}

/** The hash is the route, so the skip link must not change it. */
function skip(event: Event): void {
  event.preventDefault();
  document.getElementById("content")?.focus();
}
