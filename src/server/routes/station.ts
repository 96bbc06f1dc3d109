/** Routes of the monitoring station. */
import { UsageError } from "../../base/errors.ts";
import type { Station } from "../station.ts";
import type { Parts, Route } from "./route.ts";

export function stationRoutes({ station }: Parts): Route[] {
  return [
    {
      method: "GET",
      path: "/v1/station",
      needs: "read",
      summary:
        "the monitoring station: routers that announce themselves, their m-sets, segments, and what has to be probed",
      answer: "format hoptime.station/1; 404 where the collector is no station",
      handle: () => {
        if (station) return { json: station.describe() };
        throw new UsageError(
          "no-records",
          "this collector is no monitoring station",
          "give ‘topology’ and ‘station’",
        );
      },
    },
    ...(station ? [planRoute(station)] : []),
  ];
}

function planRoute(station: Station): Route {
  return {
    method: "GET",
    path: "/v1/station/plan",
    needs: "read",
    summary: "which routers to upgrade next, and what that gains, from those that announce themselves now",
    answer: "the map's routers and links, and format hoptime.plan/1 with the next steps",
    handle: () => ({ json: station.upgrades() }),
  };
}
