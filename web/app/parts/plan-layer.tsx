/** The plan as a layer of the map (MPLANE): routers that measure, and the next upgrades for the shortest segments. */
import { useMemo, useRef } from "preact/hooks";
import { get, hasRoute } from "../api/client.ts";
import { useAnswer, useTicks } from "../api/use-answer.ts";
import { layOut } from "../state/layout.ts";
import { Actions, csvOf } from "./actions.tsx";
import { queryCommand } from "./command.ts";
import { Heads } from "./heads.tsx";
import { NetworkMap, type NodeMark } from "./network-map.tsx";
import { savePng } from "./picture.ts";
import { Answered, Empty } from "./states.tsx";
import { countText } from "./text.ts";

interface PlanStep {
  upgraded: number;
  router: string | null;
  probeHops: number;
  segments: { count: number; meanHops: number | null; maxHops: number | null };
}

export interface StationPlan {
  routers: string[];
  links: { from: string; to: string }[];
  plan: { already: string[]; steps: PlanStep[] } | null;
  reason: string | null;
}

const AGAIN_MS = 15_000;

/** Null if the collector is no monitoring station. */
export function useStationPlan() {
  const ticks = useTicks(AGAIN_MS);
  return useAnswer(
    "station plan",
    async (signal) => {
      const has = await hasRoute("/v1/station/plan");
      return has ? await get<StationPlan>("/v1/station/plan", {}, signal) : null;
    },
    ticks,
  );
}

const hops = (value: number | null) => (value === null ? "–" : value.toFixed(2));

export function PlanLayer({ asked }: { asked: ReturnType<typeof useStationPlan> }) {
  return (
    <Answered asked={asked} what="the plan">
      {(plan) =>
        plan === null ? (
          <Empty title="This collector is not a monitoring station">
            <p>
              Give it a map of the network and the station's address: `topology` and `station`
              (docs/config.md).
            </p>
          </Empty>
        ) : (
          <PlanMap plan={plan} />
        )
      }
    </Answered>
  );
}

function PlanMap({ plan }: { plan: StationPlan }) {
  const links = useMemo(() => {
    const known = new Map(plan.links.map((l) => [[l.from, l.to].sort().join("\n"), l]));
    return [...known.values()];
  }, [plan]);
  const nodes = useMemo(() => layOut(plan.routers, links), [plan.routers.join("\n"), links.length]);
  const card = useRef<HTMLElement>(null);
  const steps = plan.plan?.steps ?? [];
  const marks = new Map<string, NodeMark>(
    (plan.plan?.already ?? []).map((name) => [name, { kind: "measures" }]),
  );
  for (const step of steps)
    if (step.router !== null)
      marks.set(step.router, { kind: "next", text: `${step.upgraded - (plan.plan?.already.length ?? 0)}` });
  return (
    <section class="card" ref={card} aria-label="Plan of upgrades">
      <Actions
        name="plan"
        command={queryCommand(["--list", "upgrades"])}
        csv={() => csvOf(planRows(steps))}
        png={() => void savePng(card.current, "Plan of upgrades")}
      />
      <p class="muted">
        Filled: routers that measure ({countText(plan.plan?.already.length ?? 0)} of{" "}
        {countText(plan.routers.length)}). Numbered: the next to upgrade, in this order.
      </p>
      <NetworkMap
        nodes={nodes}
        marks={marks}
        links={links.map((l) => ({
          ...l,
          segment: null,
          step: 0,
          stepMs: 1,
          incident: false,
          faded: false,
          plain: true,
        }))}
      />
      {plan.plan === null ? <p>{plan.reason}</p> : <Gains steps={steps} />}
    </section>
  );
}

function planRows(steps: readonly PlanStep[]): (string | number | null)[][] {
  return [
    ["upgraded", "router", "mean_hops", "max_hops", "probe_hops"],
    ...steps.map((s) => [s.upgraded, s.router, s.segments.meanHops, s.segments.maxHops, s.probeHops]),
  ];
}

function Gains({ steps }: { steps: readonly PlanStep[] }) {
  const next = steps.slice(1);
  if (next.length === 0) return <p>Every segment is a single hop: no upgrade would gain anything.</p>;
  return (
    <table class="small">
      <caption class="unseen">What each upgrade gains</caption>
      <Heads of={[["Upgrade"], ["Mean segment"], ["Longest"], ["Probed hops"]]} />
      <tbody>
        {next.map((step, i) => {
          const before = steps[i];
          return (
            <tr key={step.upgraded}>
              <th scope="row">
                {i + 1}. {step.router}
              </th>
              <td>
                {hops(before?.segments.meanHops ?? null)} → {hops(step.segments.meanHops)} hops
              </td>
              <td>
                {before?.segments.maxHops ?? "–"} → {step.segments.maxHops ?? "–"}
              </td>
              <td>
                {countText(before?.probeHops ?? null)} → {countText(step.probeHops)}
              </td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}
