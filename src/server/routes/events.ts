/** The event stream. */
import Type from "typebox";
import { HttpError } from "../problem.ts";
import type { Parts, Route } from "./route.ts";

export function eventRoutes({ service }: Parts): Route[] {
  return [
    {
      method: "GET",
      path: "/v1/events",
      needs: "read",
      summary:
        "what is new, as it comes (Server-Sent Events): an `epoch` for each row, `incident` and `alert` with what changed, `plan`",
      query: Type.Object(
        {
          after: Type.Optional(
            Type.Integer({
              minimum: 0,
              description: "number of the last event received; or header last-event-id",
            }),
          ),
        },
        { additionalProperties: false },
      ),
      answer: "text/event-stream; `gap` says how many a slow listener has missed",
      handle: ({ query, headers, signal }) => {
        if (service.events.isFull) throw new HttpError(503, "busy", "too many clients are listening", 10);
        const header = Number(headers["last-event-id"] ?? Number.NaN);
        const after = (query as { after?: number }).after ?? (Number.isInteger(header) ? header : null);
        return { type: "text/event-stream", stream: service.events.listen(after, signal) };
      },
    },
  ];
}
