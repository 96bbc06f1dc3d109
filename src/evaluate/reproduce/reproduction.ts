/**
 * A directory of results with one file per study, written when the study is finished, so that an interrupted run can be continued. A result is valid only for
 * its seed, scale and version.
 */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { VERSION } from "../../base/version.ts";
import type { Finding, Scale, Study, StudyContext } from "./study.ts";

export interface StudyResult {
  readonly format: "hoptime.study/1";
  readonly version: string;
  readonly study: string;
  readonly scale: Scale;
  readonly seed: number;
  /** The map given for plans. */
  readonly map: string | null;
  readonly cpuSeconds: number;
  readonly findings: readonly Finding[];
}

export interface Reproduction {
  readonly format: "hoptime.reproduction/1";
  readonly version: string;
  readonly scale: Scale;
  readonly seed: number;
  readonly findings: readonly Finding[];
}

export async function runStudy(study: Study, context: StudyContext): Promise<StudyResult> {
  const before = process.cpuUsage();
  const bodies = await study.run(context);
  const { user, system } = process.cpuUsage(before);
  const findings = study.heads.map((head): Finding => {
    const body = bodies[head.id];
    if (!body) throw new Error(`study ${study.name} has no result for ${head.id}`);
    return { ...head, paper: study.paper, ...body };
  });
  const { scale, seed } = context;
  return {
    format: "hoptime.study/1",
    version: VERSION,
    study: study.name,
    scale,
    seed,
    map: mapOf(study, context.map),
    cpuSeconds: (user + system) / 1e6,
    findings,
  };
}

function mapOf({ usesMap }: Study, map: string | null | undefined): string | null {
  return usesMap ? (map ?? null) : null;
}

export function resultFile(directory: string, study: Study): string {
  return join(directory, "studies", `${study.name}.json`);
}

/** Returns the stored result; null if there is none with these settings. */
export function readResult(
  directory: string,
  study: Study,
  { scale, seed, map }: Pick<StudyContext, "scale" | "seed"> & { map?: string | null | undefined },
): StudyResult | null {
  const file = resultFile(directory, study);
  if (!existsSync(file)) return null;
  try {
    const result = JSON.parse(readFileSync(file, "utf8"), revive) as StudyResult;
    const same = result.version === VERSION && result.scale === scale && result.seed === seed;
    const complete = study.heads.every((head) => result.findings.some((f) => f.id === head.id));
    return same && complete && result.map === mapOf(study, map) ? result : null;
  } catch {
    // The file is damaged or not a result: run the study again.
    return null;
  }
}

/** Formats a result for `readResult`. */
export function resultText(result: StudyResult): string {
  return `${JSON.stringify(result, plain, 1)}\n`;
}

/** JSON cannot represent infinity and NaN. */
function plain(_: string, value: unknown): unknown {
  return typeof value === "number" && !Number.isFinite(value) ? { notANumber: String(value) } : value;
}

function revive(_: string, value: unknown): unknown {
  const text = (value as { notANumber?: unknown } | null)?.notANumber;
  return typeof text === "string" ? Number(text) : value;
}
