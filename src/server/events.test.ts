import { expect, it } from "vitest";
import { Events } from "./events.ts";

/** Collects what a client gets that reconnects with the number of the last event it has seen. */
async function heard(events: Events, after: number | null, most: number): Promise<string[]> {
  const stop = new AbortController();
  const got: string[] = [];
  for await (const text of events.listen(after, stop.signal)) {
    const [, type = "", data = ""] = /^(?:id: \d+\n)?event: (\S+)\ndata: (.*)\n\n$/.exec(text) ?? [];
    if (type !== "") got.push(`${type} ${data}`);
    if (got.length === most) break;
  }
  return got;
}

it("a client that comes back gets what it has missed, in order, and hears what is kept no more", async () => {
  const events = new Events(1_700_000_000_000);
  for (let n = 0; n < 1005; n++) events.emit("epoch", () => n);
  const first = 1_700_000_000_000_000;
  expect(await heard(events, first + 1002, 2)).toEqual(["epoch 1003", "epoch 1004"]);
  expect(await heard(events, first + 1, 2)).toEqual(['gap {"lost":3}', "epoch 5"]);
  expect(await heard(events, 0, 1)).toEqual(["epoch 5"]);
});

it("after a restart a client gets what is new at once, however many events there were before", async () => {
  const before = new Events(1_700_000_000_000);
  for (let n = 0; n < 50; n++) before.emit("epoch", () => n);
  const after = new Events(1_700_000_009_000);
  after.emit("epoch", () => "new");
  const last = 1_700_000_000_000_000 + 49;
  expect(await heard(after, last, 2)).toEqual(['gap {"lost":null}', 'epoch "new"']);
  // The clock was set back; numbers of earlier versions.
  expect(await heard(after, 1_800_000_000_000_000, 2)).toEqual(['gap {"lost":null}', 'epoch "new"']);
  expect(await heard(after, 5000, 2)).toEqual(['gap {"lost":null}', 'epoch "new"']);
});
