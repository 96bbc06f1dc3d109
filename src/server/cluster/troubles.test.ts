import { describe, expect, it } from "vitest";
import { Troubles } from "./troubles.ts";

describe("what is wrong between a worker and its cluster", () => {
  const lines: string[] = [];
  let nowMs = 0;
  const troubles = new Troubles({ log: (l) => lines.push(l), patienceMs: 10_000, nowMs: () => nowMs });
  const at = (ms: number, part: string, text: string | null) => {
    nowMs = ms;
    troubles.set(part, text);
  };

  it("is not logged while brokers elect a leader, whichever part works again first", () => {
    for (let ms = 0; ms < 9000; ms += 1000) {
      at(ms, "leases", "no answer");
      at(ms + 100, "partition 1", "no responders");
      at(ms + 200, "leases", null);
    }
    at(9500, "partition 1", null);
    expect(lines).toEqual([]);
  });

  it("is logged once when it lasts, and its end once when it has lasted", () => {
    for (let ms = 20_000; ms < 60_000; ms += 1000) {
      at(ms, "leases", "no answer");
      at(ms + 100, "partition 1", ms % 2000 === 0 ? "no answer" : "no responders");
    }
    expect(lines).toEqual(["no answer", "no responders"]);
    at(60_000, "leases", null);
    at(60_500, "partition 1", null);
    at(61_000, "partition 1", "no answer");
    at(62_000, "partition 1", null);
    nowMs = 71_999;
    troubles.look();
    expect(lines).toHaveLength(2);
    nowMs = 72_000;
    troubles.look();
    expect(lines.slice(2)).toEqual(["works again"]);
    troubles.look();
    expect(lines).toHaveLength(3);
  });
});
