/** Lists the records of an archive from its folders alone: no file is opened. */
import { checkBigNs } from "../base/checks.ts";
import { UsageError } from "../base/errors.ts";
import {
  type ArchiveEntry,
  EXTENSION,
  folderName,
  identity,
  parseFileName,
  parseFolderName,
  timeFolders,
  timeName,
} from "./names.ts";
import { FILES, type RecordStorage } from "./storage.ts";

export interface Selection {
  points?: readonly string[];
  segments?: readonly string[];
  estimators?: readonly string[];
  /** Epochs that overlap [fromNs, toNs). */
  fromNs?: bigint | undefined;
  toNs?: bigint | undefined;
}

export interface Listing {
  /** Sorted by start of the epoch. */
  entries: ArchiveEntry[];
  /** Files and folders that are not records (the first few). */
  foreign: string[];
}

/** The archive's own entries next to the points' folders. */
export const MARKER = "archive.json";
export const TEMPORARY = ".tmp";
const MAX_FOREIGN = 100;

interface Found extends Listing {
  storage: RecordStorage;
}
const DASH = 45;

export function listRecords(directory: string, selection: Selection = {}, storage = FILES): Listing {
  checkBigNs("from", selection.fromNs);
  checkBigNs("to", selection.toNs);
  const out: Found = { entries: [], foreign: [], storage };
  const wanted = (list: readonly string[] | undefined) => (name: string) => list?.includes(name) ?? true;
  for (const point of folders(directory, out, wanted(selection.points))) {
    for (const segment of folders(point.path, out, wanted(selection.segments))) {
      for (const estimator of folders(segment.path, out, wanted(selection.estimators))) {
        const names = { point: point.name, segment: segment.name, estimator: estimator.name };
        listTap(estimator.path, names, selection, out);
      }
    }
  }
  const { entries, foreign } = out;
  entries.sort((a, b) => compare(a.epoch.startNs, b.epoch.startNs) || (a.file < b.file ? -1 : 1));
  return { entries, foreign };
}

/** Returns the names of the points that have a folder. */
export function listPoints(directory: string, storage = FILES): string[] {
  const found = folders(directory, nothing(storage), () => true);
  return found.map((f) => f.name).sort();
}

/** Returns the labels of the segments of which a point has records. */
export function listSegments(directory: string, point: string, storage = FILES): string[] {
  const folder = storage.below(directory, folderName(point));
  return folders(folder, nothing(storage), () => true).map((f) => f.name);
}

const nothing = (storage: RecordStorage): Found => ({ entries: [], foreign: [], storage });

/** Maximum number of folders examined per level: in an archive any of them suffices, and elsewhere there may be a whole disk below. */
const LOOKED_INTO = 10;

/** Returns whether there is a day's folder below a point, a segment and an estimator: then it is an archive, even if its marker was not copied with it. */
export function hasTaps(directory: string, storage = FILES): boolean {
  const isTap = (path: string) => storage.names(path).some((name) => LEVELS[0]?.test(name));
  const below = (path: string, levels: number): boolean => {
    try {
      if (levels === 0) return isTap(path);
      const found = folders(path, nothing(storage), () => true).slice(0, LOOKED_INTO);
      return found.some((folder) => below(folder.path, levels - 1));
    } catch (error) {
      if (error instanceof UsageError) throw error;
      return false;
    }
  };
  return below(directory, 3);
}

type TapNames = Pick<ArchiveEntry, "point" | "segment" | "estimator">;

function listTap(path: string, names: TapNames, { fromNs, toNs }: Selection, out: Found): void {
  const { storage } = out;
  const from = fromNs === undefined ? null : timeFolders(fromNs).join("/");
  const to = toNs === undefined ? null : timeFolders(toNs).join("/");
  const inside = foldersBetween(path, from, to, out);
  const found = new Map<string, ArchiveEntry>();
  const reaches = rangeTest(fromNs, toNs);
  for (const folder of inside) {
    const base = folder === "" ? path : storage.below(path, folder);
    for (const name of storage.names(base)) {
      // Folders of ten minutes next to records of version 1.
      if (!reaches(name) || LEVELS[HOUR]?.test(name)) continue;
      const parsed = parseFileName(name);
      if (!parsed) {
        noteForeign(out, storage.below(base, name));
        continue;
      }
      if (fromNs !== undefined && parsed.epoch.endNs <= fromNs) continue;
      if (toNs !== undefined && parsed.epoch.startNs >= toNs) continue;
      const entry: ArchiveEntry = { file: storage.below(base, name), ...names, ...parsed };
      // Replacing a record by a longer one of the same epoch was interrupted: the longer one counts.
      const other = found.get(identity(entry));
      if (!other || other.epoch.endNs < entry.epoch.endNs) found.set(identity(entry), entry);
    }
  }
  for (const entry of found.values()) out.entries.push(entry);
}

/** Names of the folders below a tap: day, hour, ten minutes. */
const LEVELS = [/^[+-]?\d+-\d\d-\d\d$/, /^\d\d$/, /^[0-5]0$/];
const HOUR = 2;

/**
 * Returns folders below `path` with records between `from` and `to` ("2026-11-15/04/20"), and the last one before: epochs of one tap are consecutive, so of
 * those that start before the range only the last can extend into it. Names sort like time.
 */
function foldersBetween(path: string, from: string | null, to: string | null, out: Found): string[] {
  const inside: string[] = [];
  let before: string | null = null;
  const visit = (folder: string, level: number): void => {
    const { names, records } = timeFolder(path, folder, level, out);
    if (records) inside.push(folder);
    for (const name of names) {
      // In ascending order, so that it ends with the last; it is examined only then.
      if (from !== null && name < from.slice(0, name.length)) before = name;
      else if (to !== null && name > to.slice(0, name.length)) continue;
      else if (level === HOUR) inside.push(name);
      else visit(name, level + 1);
    }
  };
  visit("", 0);
  for (let last: string | null = before; last !== null; ) {
    const level: number = last.split("/").length;
    if (level > HOUR) {
      inside.unshift(last);
      break;
    }
    const { names, records } = timeFolder(path, last, level, out);
    if (records) inside.unshift(last);
    last = names.at(-1) ?? null;
  }
  return inside;
}

/** Returns the time folders in a folder, in order, and whether there are records next to them: those of version 1 in the folder of their hour. */
function timeFolder(path: string, folder: string, level: number, out: Found) {
  const names: string[] = [];
  let records = false;
  for (const entry of out.storage.list(folder === "" ? path : out.storage.below(path, folder))) {
    const name = folder === "" ? entry.name : `${folder}/${entry.name}`;
    if (entry.isFolder && LEVELS[level]?.test(entry.name)) names.push(name);
    else if (level === HOUR && !entry.isFolder) records = true;
    else noteForeign(out, out.storage.below(path, name));
  }
  return { names, records };
}

/**
 * Returns a test that excludes records by the digits of their name alone: an hour has thousands of files, of which a query needs a few. True if it cannot be
 * decided that quickly.
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

function folders(
  path: string,
  out: Found,
  wanted: (name: string) => boolean,
): { name: string; path: string }[] {
  const found = [];
  for (const entry of out.storage.list(path)) {
    if (entry.name === MARKER || entry.name === TEMPORARY) continue;
    const name = entry.isFolder ? parseFolderName(entry.name) : null;
    if (name === null) noteForeign(out, out.storage.below(path, entry.name));
    else if (wanted(name)) found.push({ name, path: out.storage.below(path, entry.name) });
  }
  return found;
}

function noteForeign(out: Listing, path: string): void {
  if (out.foreign.length < MAX_FOREIGN) out.foreign.push(path);
}

function compare(a: bigint, b: bigint): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
