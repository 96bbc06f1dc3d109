/** End-to-end paths: the delay now and over time, and a line of points in which the width of each part is its share of the delay. */
import { get } from "../api/client.ts";
import { type NetworkPath, type PathLatency, useRoute } from "../api/network.ts";
import { useAnswer, useTicks } from "../api/use-answer.ts";
import { hrefTo, param } from "../state/location.ts";
import type { Segment } from "../state/segments.ts";
import { Actions, csvOf } from "./actions.tsx";
import { queryCommand } from "./command.ts";
import { Sparkline } from "./sparkline.tsx";
import { delayText, intervalText, shareText } from "./text.ts";

const AGAIN_MS = 5000;

export function usePaths(): readonly NetworkPath[] {
  const has = useRoute("/v1/paths");
  const ticks = useTicks(AGAIN_MS);
  const asked = useAnswer(
    has ? "paths" : null,
    async (signal) => (await get<{ paths: NetworkPath[] }>("/v1/paths", {}, signal)).paths,
    ticks,
  );
  return asked.data ?? NO_PATHS;
}
const NO_PATHS: readonly NetworkPath[] = [];

/** `segments`: the segments of the overview; their delays over time are added up along the path. */
export function Paths({ segments }: { segments: readonly Segment[] }) {
  const query = (param("q") ?? "").toLowerCase();
  const paths = usePaths().filter((p) => `${p.name} ${p.points.join(" ")}`.toLowerCase().includes(query));
  if (paths.length === 0) return null;
  return (
    <section class="card" aria-label="Paths">
      <div class="card-head">
        <h2>Paths now</h2>
        <Actions
          name="paths"
          command={queryCommand(["--list", "paths"], ["--search", param("q")])}
          csv={() => csvOf(pathRows(paths))}
        />
      </div>
      {paths.map((path) => (
        <PathLine key={path.name} path={path} segments={segments} />
      ))}
    </section>
  );
}

function pathRows(paths: readonly NetworkPath[]): (string | number | null)[][] {
  return [
    ["path", "from", "to", "mean_ns", "share", "loss_rate"],
    ...paths.flatMap(({ name, segments }) =>
      segments.map((s) => [name, s.from, s.to, s.latency?.meanNs ?? null, s.share, s.lossRate]),
    ),
  ];
}

const latencyText = (latency: PathLatency): string => {
  const { meanNs, lowNs = null, highNs = null } = latency;
  return lowNs === null || highNs === null ? delayText(meanNs) : intervalText({ meanNs, lowNs, highNs });
};

/** Returns the path's values step by step: delays are added, delivery rates are multiplied. Null if a segment has no answer. */
export function alongPath(path: Pick<NetworkPath, "points">, segments: readonly Segment[]) {
  const parts = path.points
    .slice(1)
    .map((to, i) => segments.find((s) => s.from === path.points[i] && s.to === to));
  const whole = parts.flatMap((s) => s ?? []);
  const steps = whole.length === parts.length ? Math.min(...whole.map((s) => s.meanNs.length)) : 0;
  const folded = (
    field: "meanNs" | "lowNs" | "highNs" | "lossRate",
    put: (sum: number, value: number) => number,
    first: number,
  ) =>
    Array.from({ length: steps }, (_, i) =>
      whole.reduce<number | null>((sum, s) => {
        const value = s[field][i] ?? null;
        return sum === null || value === null ? null : put(sum, value);
      }, first),
    );
  const sum = (a: number, b: number) => a + b;
  return {
    meanNs: folded("meanNs", sum, 0),
    lowNs: folded("lowNs", sum, 0),
    highNs: folded("highNs", sum, 0),
    lossRate: folded("lossRate", (lost, rate) => 1 - (1 - lost) * (1 - rate), 0),
  };
}

function PathLine({ path, segments }: { path: NetworkPath; segments: readonly Segment[] }) {
  const bad = path.incidents.length > 0;
  const { latency } = path;
  return (
    <div class="path-line">
      <strong>{path.name}</strong>
      <span class="wide-only path-spark">
        <Sparkline line={alongPath(path, segments)} label={path.name} />
      </span>
      <span
        class={bad ? "path-delay bad-text" : "path-delay"}
        title={
          latency ? `sum of its segments (${path.estimator ?? "any estimator"}), at 95 % confidence` : ""
        }
      >
        {latency ? latencyText(latency) : "no answer"}
      </span>
      <span class="path-parts">
        <span>{path.points[0]}</span>
        {path.segments.map((s) => {
          const share = s.share ?? 0;
          const text = s.latency ? delayText(s.latency.meanNs) : "no answer";
          const whole = s.latency ? latencyText(s.latency) : "no answer";
          return (
            <a
              key={`${s.from} ${s.to}`}
              href={hrefTo(["segment", s.from, s.to])}
              title={`${s.from} → ${s.to}: ${whole}, ${shareText(s.share)} of the path's delay`}
            >
              <i
                class={bad && share > 0.5 ? "part bad" : "part"}
                style={{
                  height: `${2 + Math.round(6 * share)}px`,
                  width: `${40 + Math.round(120 * share)}px`,
                }}
              />
              <small>
                {text}
                {s.share !== null && ` · ${shareText(Math.round(100 * s.share) / 100)}`}
              </small>
              <span>{s.to}</span>
            </a>
          );
        })}
      </span>
    </div>
  );
}
