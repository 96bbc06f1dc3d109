import { test } from "vitest";
import { type Packet, runMatcher } from "./support/run-matcher.ts";

const MS = 1e6;
test("two", () => {
  for (const wrap of [54, 100, 180, 269, 300])
    for (const flows of [1, 5]) {
      const before: Packet[] = [];
      const after: Packet[] = [];
      for (let i = 0; i < 540; i++) {
        const timeNs = i * 17.5 * MS + (i > 537 ? 700 * MS : 0);
        const packet = { digest: (i % wrap) * 10 + ((i * 7) % flows), flow: 1 };
        before.push({ ...packet, timeNs });
        after.push({ ...packet, timeNs: timeNs + 13 * MS - (i > 537 ? 2400 * MS : 0) });
      }
      const m = runMatcher(before, after, {
        windowNs: 4e9,
        epochNs: 1e9,
        thresholdNs: Number.NEGATIVE_INFINITY,
      });
      const { forward: f } = m.flows.survey(false);
      console.log(
        wrap,
        flows,
        f.matched,
        "lost",
        f.lost,
        "tail",
        f.tailBefore,
        "app",
        f.appeared,
        "dup",
        f.duplicates,
        "amb",
        f.ambiguous,
        JSON.stringify(m.repeated),
      );
    }
});
