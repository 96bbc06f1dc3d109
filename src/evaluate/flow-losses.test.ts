/** Loss of flows over epochs cut by time: packets in flight at an epoch boundary are not lost. The simulation counts the true losses. Fixed seeds. */
import { expect, test } from "vitest";
import { Kernels } from "../base/kernels.ts";
import { askArchive } from "../query/segment/ask.ts";
import { type Hop, RECEIVER, SENDER } from "../simulate/scenario.ts";
import { observeSimulated } from "./coverage.ts";

const full: Hop = { kind: "queue", utilisation: 1.05, capacityPackets: 200, propagationNs: 200_000 };
const busy: Hop = { kind: "queue", utilisation: 0.9, capacityPackets: 5000, propagationNs: 5_000_000 };

test.each([
  ["a queue that is never full: nothing is lost", busy],
  ["a full queue: up to 200 packets are in flight at each cut", full],
])("flows have lost what they have lost, %s", async (_, hop) => {
  const kernels = new Kernels();
  const scenario = {
    seed: 61_401,
    traffic: { kind: "synthetic", ratePps: 3000, durationS: 5 } as const,
    path: [hop],
  };
  const cut = { mode: "aligned", lengthNs: 1_000_000_000n } as const;
  const { records, truth } = await observeSimulated(kernels, scenario, cut, ["flows", "lds", "colate"]);
  const { estimates, groups } = askArchive(
    records,
    { between: [SENDER, RECEIVER], top: Number.MAX_SAFE_INTEGER },
    { kernels },
  );
  for (const name of ["lds", "colate"]) {
    const { sent, received, lost } = estimates[name] ?? {};
    expect({ received, lost }, name).toEqual({ received: truth.packets, lost: truth.lost });
    const own = groups.filter((g) => g.estimator === name);
    expect(own.reduce((sum, g) => sum + (g.packets ?? 0), 0)).toBe(sent);
    const wrong = own.filter(
      ({ text, packets, lost, lostLow }) =>
        lost !== (packets ?? 0) - (truth.flows.get(text)?.packets ?? 0) || lostLow > lost,
    );
    expect(wrong.map((g) => `${g.text}: ${g.lost} of ${g.packets}`)).toEqual([]);
  }
});
