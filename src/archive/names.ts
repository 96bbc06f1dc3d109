/**
 * Path of a record: DIR/point/segment/estimator/YYYY-MM-DD/HH/MM/START-END-MODE-ROLE[-STARTID-ENDID].hop (docs/formats/archive.md). The path contains
 * everything that queries select by, so that listing only reads folders; MM is the ten minutes of the start, to keep folders small: a query that finds nothing
 * in the page cache waits for every block of them. Version 1 had no MM. Characters other than letters, digits, dots and dashes are written as %XX; no segment
 * is `_`.
 */
import { remembered } from "../base/remembered.ts";
import { formatTime } from "../base/time.ts";
import type { CutMode, EpochBounds, RecordHead, RecordRole } from "../epoch/record.ts";

export const EXTENSION = ".hop";
/** Maximum number of cached names of points, segments and estimators. */
const MAX_REMEMBERED = 50_000;

/** What a record's path shows. */
export interface ArchiveEntry {
  /** Path of the file. */
  file: string;
  point: string;
  segment: string;
  estimator: string;
  role: RecordRole;
  epoch: Pick<EpochBounds, "mode" | "startNs" | "endNs" | "startId" | "endId">;
}

const MODE_LETTERS: Record<CutMode, string> = { aligned: "a", control: "c", delimited: "d" };
const ROLE_LETTERS: Record<RecordRole, string> = { none: "n", sender: "s", receiver: "r" };

export const folderName = remembered(MAX_REMEMBERED, (name) => {
  if (name === "") return "_";
  let out = "";
  for (const byte of new TextEncoder().encode(name)) {
    const letter = String.fromCharCode(byte);
    // A leading dot would hide the folder; a leading dash is harmless.
    const plain = /[A-Za-z0-9-]/.test(letter) || (letter === "." && out !== "");
    out += plain ? letter : `%${byte.toString(16).toUpperCase().padStart(2, "0")}`;
  }
  return out;
});

/** The inverse of folderName; null for a folder that no name produces. */
export function parseFolderName(folder: string): string | null {
  if (folder === "_") return "";
  try {
    const name = decodeURIComponent(folder);
    return folderName(name) === folder ? name : null;
  } catch {
    return null;
  }
}

/** Returns the folders of the ten minutes in which an epoch starts: ["2026-11-15", "04", "20"]. */
export function timeFolders(ns: bigint): [day: string, hour: string, minutes: string] {
  const text = formatTime(ns);
  const at = text.indexOf("T");
  return [text.slice(0, at), text.slice(at + 1, at + 3), `${text[at + 4]}0`];
}

/** Returns the path of a record below the archive's folder, as parts. */
export function recordPath(head: RecordHead): string[] {
  const { epoch } = head;
  const parts = [
    timeName(epoch.startNs),
    timeName(epoch.endNs),
    MODE_LETTERS[epoch.mode],
    ROLE_LETTERS[head.role],
  ];
  if (epoch.mode !== "aligned") parts.push(hex(epoch.startId), hex(epoch.endId));
  return [
    folderName(head.point),
    folderName(head.segment),
    folderName(head.estimator),
    ...timeFolders(epoch.startNs),
    parts.join("-") + EXTENSION,
  ];
}

const MODES: ReadonlyMap<string, CutMode> = new Map([
  ["a", "aligned"],
  ["c", "control"],
  ["d", "delimited"],
]);
const ROLES: ReadonlyMap<string, RecordRole> = new Map([
  ["n", "none"],
  ["s", "sender"],
  ["r", "receiver"],
]);
const FILE_NAME = /^(m?\d{19})-(m?\d{19})-([acd])-([nsr])(?:-([0-9a-f]{16})-([0-9a-f]{16}))?\.hop$/;

/** Parses a file name; null if it is not a record's name. */
export function parseFileName(name: string): Pick<ArchiveEntry, "role" | "epoch"> | null {
  const match = FILE_NAME.exec(name);
  if (!match) return null;
  const [, start = "", end = "", modeLetter = "", roleLetter = "", startId, endId] = match;
  const mode = MODES.get(modeLetter);
  const role = ROLES.get(roleLetter);
  if (mode === undefined || role === undefined) return null;
  if ((mode === "aligned") !== (startId === undefined)) return null;
  const id = (text: string | undefined) => (text === undefined ? 0n : BigInt(`0x${text}`));
  const epoch = {
    mode,
    startNs: parseTimeName(start),
    endNs: parseTimeName(end),
    startId: id(startId),
    endId: id(endId),
  };
  return { role, epoch };
}

/**
 * One epoch of one tap has one identity, whenever it ended: a growing capture moves the end of an epoch that is cut by packets. An epoch cut by the clock has a
 * fixed end; a different end means a different epoch length, and is stored separately.
 */
export function identity({ role, epoch }: Pick<ArchiveEntry, "role" | "epoch">): string {
  const { mode, startNs, endNs, startId } = epoch;
  return `${startNs}-${mode}-${mode === "aligned" ? endNs : startId}-${role}`;
}

/** Nineteen digits cover 64-bit time and sort as text; `m` is minus. */
export function timeName(ns: bigint): string {
  return (ns < 0n ? "m" : "") + (ns < 0n ? -ns : ns).toString().padStart(19, "0");
}

function parseTimeName(text: string): bigint {
  return text.startsWith("m") ? -BigInt(text.slice(1)) : BigInt(text);
}

function hex(id: bigint): string {
  return id.toString(16).padStart(16, "0");
}
