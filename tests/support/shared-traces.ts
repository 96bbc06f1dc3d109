/** The shared captures (not part of the repository): their directory, and the unpacked robustness corpus. */
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));

/** Returns the directory of the traces, or null (and prints a reason): HOPTIME_SHARED, otherwise ../shared next to the repository. */
export function sharedTraces(forWhat: string): string | null {
  const folder = join(process.env["HOPTIME_SHARED"] ?? resolve(root, "..", "shared"), "traces");
  if (existsSync(folder)) return folder;
  console.log(`${forWhat}: skipped, ${folder} is not there (set HOPTIME_SHARED)`);
  return null;
}

export function filesUnder(folder: string): string[] {
  return readdirSync(folder, { recursive: true })
    .map((f) => join(folder, String(f)))
    .filter((f) => statSync(f).isFile())
    .sort();
}

/** Unpacks capture-corpus.tar.gz and corrupt.tar.gz below `scratch`; returns the files that are meant as captures. */
export function unpackCorpus(traces: string, scratch: string): string[] {
  return ["capture-corpus", "corrupt"].flatMap((name) => {
    const folder = join(scratch, name);
    mkdirSync(folder, { recursive: true });
    execFileSync("tar", ["xzf", join(traces, "robustness", `${name}.tar.gz`), "-C", folder]);
    return filesUnder(folder).filter((f) => !f.endsWith("MANIFEST.tsv"));
  });
}
