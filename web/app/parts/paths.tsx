/** Paths from end to end: a line of points, each part as thick as its share of the delay, which is written on it. */
import { get } from "../api/client.ts";
import { type NetworkPath, useRoute } from "../api/network.ts";
import { useAnswer, useTicks } from "../api/use-answer.ts";
import { hrefTo, param } from "../state/location.ts";
import { Actions, csvOf } from "./actions.tsx";
import { queryCommand } from "./command.ts";
import { delayText, shareText } from "./text.ts";

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

export function Paths() {
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
        <PathLine key={path.name} path={path} />
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

function PathLine({ path }: { path: NetworkPath }) {
  const bad = path.incidents.length > 0;
  return (
    <div class="path-line">
      <strong class={bad ? "bad-text" : ""}>
        {path.name} {path.latency ? delayText(path.latency.meanNs) : "no answer"}
      </strong>
      <span class="path-parts">
        <span>{path.points[0]}</span>
        {path.segments.map((s) => {
          const share = s.share ?? 0;
          const text = s.latency ? delayText(s.latency.meanNs) : "no answer";
          return (
            <a
              key={`${s.from} ${s.to}`}
              href={hrefTo(["segment", s.from, s.to])}
              title={`${s.from} → ${s.to}: ${text}, ${shareText(s.share)} of the path's delay`}
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
