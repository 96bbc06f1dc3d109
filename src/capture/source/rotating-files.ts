/**
 * Reads the files of a rotating capture (tcpdump -C, -G, -W; dumpcap -b) while they are written. Names do not give the order: numbers wrap around, times have
 * any format. So the next file is the one whose first packet is the earliest after the current file's first packet. Once it exists, the current file is
 * complete. A reused name (a ring of files) counts as a new file because its first packet differs.
 */
import { existsSync, readdirSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { FormatError } from "../../base/errors.ts";
import type { Kernels } from "../../base/kernels.ts";
import { CaptureReader } from "../reader.ts";
import { CaptureSource, type CaptureSourceOptions } from "./capture-source.ts";
import { openGrowingFile, POLL_MS } from "./growing-file.ts";

export interface RotatingOptions extends CaptureSourceOptions {
  pollMs?: number;
}

interface Candidate {
  path: string;
  /** Time of its first packet. */
  firstNs: bigint;
}

/** Returns whether a path stands for several files: a name with a `*` for all files that match, a directory for all files in it. */
export function isFilePattern(path: string): boolean {
  return basename(path).includes("*") || (statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false);
}

/** `pattern`: a path with `*` in its last part, or a directory. */
export function followFiles(kernels: Kernels, pattern: string, options: RotatingOptions = {}): CaptureSource {
  const { signal, pollMs = POLL_MS } = options;
  const files = new Rotation(kernels, pattern);
  let current: Candidate | null = null;
  const next = async (): Promise<CaptureReader | null> => {
    while (!signal?.aborted) {
      const after: Candidate | null = current;
      const found = await files.after(after);
      if (found) {
        current = found;
        const isComplete = async () => (await files.after(found)) !== null;
        const bytes = openGrowingFile(found.path, { signal, pollMs, isComplete });
        return await CaptureReader.of(kernels, bytes, null, options.capture);
      }
      await sleep(pollMs, undefined, signal ? { signal } : {}).catch(() => {});
    }
    return null;
  };
  return new CaptureSource(pattern, next, { ...options, live: true });
}

/** The files present and when each begins. */
class Rotation {
  readonly #kernels: Kernels;
  readonly #directory: string;
  readonly #matches: RegExp;
  readonly #known = new Map<string, { firstNs: bigint | null; version: string }>();

  constructor(kernels: Kernels, pattern: string) {
    this.#kernels = kernels;
    const folder = statSync(pattern, { throwIfNoEntry: false })?.isDirectory() ?? false;
    this.#directory = folder ? pattern : dirname(pattern);
    const name = folder ? "*" : basename(pattern);
    const escaped = name.split("*").map((part) => part.replace(/[.+?^${}()|[\]\\]/g, "\\$&"));
    this.#matches = new RegExp(`^${escaped.join(".*")}$`);
  }

  /** Returns the file that begins next after this one, or the first file for null. */
  async after(current: Candidate | null): Promise<Candidate | null> {
    let next: Candidate | null = null;
    for (const file of await this.#look()) {
      if (current && !(file.firstNs > current.firstNs || isTwin(file, current))) continue;
      if (!next || file.firstNs < next.firstNs || (file.firstNs === next.firstNs && file.path < next.path))
        next = file;
    }
    return next;
  }

  async #look(): Promise<Candidate[]> {
    const found: Candidate[] = [];
    const names = readdirSync(this.#directory).filter((name) => this.#matches.test(name));
    const there = new Set(names);
    for (const name of this.#known.keys()) if (!there.has(name)) this.#known.delete(name);
    for (const name of names) {
      const path = join(this.#directory, name);
      const stat = statSync(path, { throwIfNoEntry: false });
      if (!stat?.isFile()) continue;
      // A changed file may have been rewritten from its start, as in a ring of files.
      const version = [stat.dev, stat.ino, stat.size, stat.mtimeMs].join(":");
      let known = this.#known.get(name);
      if (known?.version !== version) {
        known = { firstNs: await firstPacket(this.#kernels, path), version };
        this.#known.set(name, known);
      }
      if (known.firstNs !== null) found.push({ path, firstNs: known.firstNs });
    }
    return found;
  }
}

function isTwin(file: Candidate, current: Candidate): boolean {
  return file.firstNs === current.firstNs && file.path > current.path;
}

/** Returns the time of a file's first packet; null if it has none yet or is not a capture. */
async function firstPacket(kernels: Kernels, path: string): Promise<bigint | null> {
  let reader: CaptureReader | null = null;
  try {
    reader = await CaptureReader.open(kernels, path, { batchRows: 1 });
    return (await reader.next()) ? reader.originNs : null;
  } catch (error) {
    // Also if the ring has just removed the file.
    if (error instanceof FormatError || !existsSync(path)) return null;
    throw error;
  } finally {
    reader?.close();
    reader?.free();
  }
}
