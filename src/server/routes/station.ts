/** The monitoring station. */
import { UsageError } from "../../base/errors.ts";
import type { Parts, Route } from "./route.ts";

export function stationRoutes({ station }: Parts): Route[] {
  return [
    {
      method: "GET",
      path: "/v1/station",
      needs: "read",
      summary:
        "the monitoring station: routers that announce themselves, their m-sets, segments, what is to be probed",
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
  ];
}
