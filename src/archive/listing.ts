/** Which records an archive holds, told from its folders alone: no file is opened. */
import { type Dirent, readdirSync } from "node:fs";
import { join, sep } from "node:path";
import {
  type ArchiveEntry,
  EXTENSION,
  hourFolders,
  identity,
  parseFileName,
  parseFolderName,
  timeName,
} from "./names.ts";

export interface Selection {
  points?: readonly string[];
  segments?: readonly string[];
  estimators?: readonly string[];
  /** Epochs that reach into [fromNs, toNs). */
  fromNs?: bigint | undefined;
  toNs?: bigint | undefined;
}

export interface Listing {
  /** By start of the epoch. */
  entries: ArchiveEntry[];
  /** Files and folders among the records that are none (the first few). */
  foreign: string[];
}

/** The archive's own things beside the points' folders. */
export const MARKER = "archive.json";
export const TEMPORARY = ".tmp";
const MOST_FOREIGN = 100;
const DASH = 45;

export function listRecords(directory: string, selection: Selection = {}): Listing {
  const out: Listing = { entries: [], foreign: [] };
  const wanted = (list: readonly string[] | undefined) => (name: string) => list?.includes(name) ?? true;
  for (const point of folders(directory, out, wanted(selection.points))) {
    for (const segment of folders(point.path, out, wanted(selection.segments))) {
      for (const estimator of folders(segment.path, out, wanted(selection.estimators))) {
        const names = { point: point.name, segment: segment.name, estimator: estimator.name };
        listTap(estimator.path, names, selection, out);
      }
    }
  }
  out.entries.sort((a, b) => compare(a.epoch.startNs, b.epoch.startNs) || (a.file < b.file ? -1 : 1));
  return out;
}

/** Names of the points that have a folder. */
export function listPoints(directory: string): string[] {
  const found = folders(directory, { entries: [], foreign: [] }, () => true);
  return found.map((f) => f.name).sort();
}

type TapNames = Pick<ArchiveEntry, "point" | "segment" | "estimator">;

function listTap(path: string, names: TapNames, { fromNs, toNs }: Selection, out: Listing): void {
  const from = fromNs === undefined ? null : hourFolders(fromNs).join("/");
  const to = toNs === undefined ? null : hourFolders(toNs).join("/");
  // Epochs of one tap follow each other: of those that start before the range, only the last can reach into it.
  let before: string | null = null;
  const inside: string[] = [];
  for (const day of read(path).sort(byName)) {
    if (!day.isDirectory() || !/^[+-]?\d+-\d\d-\d\d$/.test(day.name)) {
      noteForeign(out, join(path, day.name));
      continue;
    }
    if (to !== null && day.name > to.slice(0, day.name.length)) continue;
    // An earlier day matters only as the last before the range: its hours are looked at when it is known to be.
    if (from !== null && day.name < from.slice(0, day.name.length)) {
      before = day.name;
      continue;
    }
    for (const hour of read(join(path, day.name)).sort(byName)) {
      const name = `${day.name}/${hour.name}`;
      if (!hour.isDirectory() || !/^\d\d$/.test(hour.name)) noteForeign(out, join(path, name));
      else if (from !== null && name < from) before = name;
      else if (to === null || name <= to) inside.push(name);
    }
  }
  if (before !== null) inside.unshift(before.includes("/") ? before : lastHour(path, before));
  const found = new Map<string, ArchiveEntry>();
  const reaches = rangeTest(fromNs, toNs);
  for (const folder of inside) {
    const base = join(path, folder);
    for (const name of readNames(base)) {
      if (!reaches(name)) continue;
      const told = parseFileName(name);
      if (!told) {
        noteForeign(out, join(base, name));
        continue;
      }
      if (fromNs !== undefined && told.epoch.endNs <= fromNs) continue;
      if (toNs !== undefined && told.epoch.startNs >= toNs) continue;
      const entry: ArchiveEntry = { file: `${base}${sep}${name}`, ...names, ...told };
      // Replacing a record by a longer one of the same epoch was cut off in between: the longer one counts.
      const other = found.get(identity(entry));
      if (!other || other.epoch.endNs < entry.epoch.endNs) found.set(identity(entry), entry);
    }
  }
  for (const entry of found.values()) out.entries.push(entry);
}

/**
 * Tells from a name's digits alone that a record is out of range: an hour has thousands of files of which a question wants a few. True for everything
 * that is not told so quickly.
 */
function rangeTest(fromNs: bigint | undefined, toNs: bigint | undefined): (name: string) => boolean {
  const from = fromNs === undefined || fromNs < 0n ? "" : timeName(fromNs);
  const to = toNs === undefined || toNs < 0n ? null : timeName(toNs);
  return (name) => {
    if (name.charCodeAt(19) !== DASH || name.charCodeAt(39) !== DASH || !name.endsWith(EXTENSION))
      return true;
    if (to !== null && name.slice(0, 19) >= to) return false;
    return name.slice(20, 39) > from;
  };
}

function lastHour(path: string, day: string): string {
  const hours = read(join(path, day))
    .map((h) => h.name)
    .filter((h) => /^\d\d$/.test(h))
    .sort();
  return join(day, hours.at(-1) ?? "");
}

function folders(
  path: string,
  out: Listing,
  wanted: (name: string) => boolean,
): { name: string; path: string }[] {
  const found = [];
  for (const entry of read(path).sort(byName)) {
    if (entry.name === MARKER || entry.name === TEMPORARY) continue;
    const name = entry.isDirectory() ? parseFolderName(entry.name) : null;
    if (name === null) noteForeign(out, join(path, entry.name));
    else if (wanted(name)) found.push({ name, path: join(path, entry.name) });
  }
  return found;
}

function read(path: string): Dirent[] {
  return orNothing(() => readdirSync(path, { withFileTypes: true }));
}

function readNames(path: string): string[] {
  return orNothing(() => readdirSync(path));
}

/** A folder that retention has just removed is an empty one. */
function orNothing<T>(list: () => T[]): T[] {
  try {
    return list();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
}

function noteForeign(out: Listing, path: string): void {
  if (out.foreign.length < MOST_FOREIGN) out.foreign.push(path);
}

function byName(a: Dirent, b: Dirent): number {
  return a.name < b.name ? -1 : 1;
}

function compare(a: bigint, b: bigint): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
