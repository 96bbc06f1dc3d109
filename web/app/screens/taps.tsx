/** State of the taps: what each point sent and when, what it dropped, what waits on its disk, and which expected records are missing. */

import { formatBytes } from "../../../src/base/quantity.ts";
import { newestProgram } from "../../../src/present/tap-trouble.ts";
import { get } from "../api/client.ts";
import { type PointCoverage, useRoute } from "../api/network.ts";
import type { Health, TapPlanState, TapState } from "../api/types.ts";
import { useAnswer, useTicks } from "../api/use-answer.ts";
import { Actions, csvOf } from "../parts/actions.tsx";
import { queryCommand } from "../parts/command.ts";
import { Heads } from "../parts/heads.tsx";
import { Answered, Empty } from "../parts/states.tsx";
import { TapRow } from "../parts/tap-row.tsx";
import { countText, durationText } from "../parts/text.ts";
import { collectorNowMs } from "../state/clock.ts";
import { param } from "../state/location.ts";

const AGAIN_MS = 5000;

interface Taps {
  points: { name: string; tap: TapState | null }[];
  health: Health;
  plan: TapPlanState;
  coverage: PointCoverage[];
  atMs: number;
}

export function TapsScreen() {
  const ticks = useTicks(AGAIN_MS);
  const hasCoverage = useRoute("/v1/coverage");
  const asked = useAnswer(
    hasCoverage === null ? null : "taps",
    async (signal): Promise<Taps> => {
      const [{ points }, health, plan, coverage] = await Promise.all([
        get<Pick<Taps, "points">>("/v1/points", {}, signal),
        get<Health>("/v1/health", {}, signal),
        get<TapPlanState>("/v1/plan", {}, signal),
        hasCoverage ? get<{ points: PointCoverage[] }>("/v1/coverage", {}, signal) : { points: [] },
      ]);
      return { points, health, plan, coverage: coverage.points, atMs: collectorNowMs() };
    },
    ticks,
  );
  return (
    <>
      <h1>Taps</h1>
      <Answered asked={asked} what="the taps">
        {(taps) => (
          <>
            <TapTable taps={taps} />
            <Plan plan={taps.plan} />
            <CollectorHealth health={taps.health} />
          </>
        )}
      </Answered>
    </>
  );
}

function TapTable({ taps }: { taps: Taps }) {
  const query = (param("q") ?? "").toLowerCase();
  const points = taps.points.filter((p) => p.name.toLowerCase().includes(query));
  if (taps.points.length === 0)
    return (
      <Empty title="No tap has sent a record yet">
        <p>
          <code>hoptime observe eth0 --point A --to {location.origin}</code>
        </p>
      </Empty>
    );
  const newest = newestProgram(taps.points.flatMap((p) => p.tap?.program ?? []));
  return (
    <section class="card table-card" aria-label="Points">
      <div class="card-head">
        <h2>Points</h2>
        <Actions
          name="taps"
          command={queryCommand(["--list", "points"], ["--search", param("q")])}
          csv={() => csvOf(tapRows(points, taps))}
        />
      </div>
      <table class="rows">
        <Heads
          of={[
            ["Point"],
            ["Last heard"],
            ["Packets/s", "number wide-only"],
            ["Dropped", "number wide-only"],
            ["In its spool", "number wide-only"],
            ["Records missing", "number wide-only"],
            ["Clock", "wide-only"],
            ["CPU", "number wide-only"],
            ["Version", "wide-only"],
            ["State"],
          ]}
        />
        <tbody>
          {points.map(({ name, tap }) => (
            <TapRow
              key={name}
              name={name}
              tap={tap}
              coverage={taps.coverage.filter((c) => c.point === name)}
              atMs={taps.atMs}
              newest={newest}
            />
          ))}
        </tbody>
      </table>
    </section>
  );
}

function tapRows(points: Taps["points"], { coverage }: Taps): (string | number | null)[][] {
  const head = [
    ...["point", "heard_ms", "last_end_ns", "packets", "packets_per_s", "dropped", "spool_records"],
    ...["records_missing", "clock_synchronised", "clock_error_ns", "cpu_share", "version"],
  ];
  return [
    head,
    ...points.map(({ name, tap }) => [
      ...[name, tap?.heardMs ?? null, tap?.lastEndNs ?? null, tap?.packets ?? null],
      ...[tap?.packetsPerSecond ?? null, tap?.dropped ?? null, tap?.spool?.waiting ?? null],
      coverage.filter((c) => c.point === name).reduce((sum, c) => sum + c.missing, 0),
      tap?.clock ? (tap.clock.synchronised ? "yes" : "no") : null,
      ...[tap?.clock?.estimatedErrorNs ?? null, tap?.cpuShare ?? null, tap?.program ?? null],
    ]),
  ];
}

function Plan({ plan }: { plan: TapPlanState }) {
  return (
    <section class="card" aria-label="Plan">
      <h2>What the taps are to keep</h2>
      {plan.plan === null ? (
        <p class="muted">
          No plan is set: each tap keeps what it was started with (PUT /v1/plan sets one for all).
        </p>
      ) : (
        <p>
          {plan.plan.estimators.join(", ")}
          {plan.plan.epoch && `, epochs of ${plan.plan.epoch}`}
          {plan.plan.key && `, key ${plan.plan.key}`}
          {plan.plan.filter && `, only ${plan.plan.filter}`} (version {plan.version}
          {plan.next && `; version ${plan.next.version} follows`})
        </p>
      )}
    </section>
  );
}

function CollectorHealth({ health }: { health: Health }) {
  const { records, pairing, memory, problems } = health;
  return (
    <section class="card" aria-label="Collector">
      <h2>Collector</h2>
      <p>
        <span class={`badge ${health.status === "ok" ? "fine" : "bad"}`}>{health.trouble ?? "well"}</span>,
        hoptime {health.hoptime}, up {durationText(1000 * health.upSeconds)},{" "}
        {countText(records["stored"] ?? null)} records stored, {countText(records["refused"] ?? null)}{" "}
        refused, {countText(records["rows"] ?? null)} rows, {countText(pairing["waiting"] ?? null)} epochs
        wait for their other end, {formatBytes(memory.rss)} of memory
      </p>
      {problems.length > 0 && (
        <ul class="sentences">
          {problems.slice(-5).map((p) => (
            <li key={p}>{p}</li>
          ))}
        </ul>
      )}
    </section>
  );
}
