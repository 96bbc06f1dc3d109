/**
 * Folds similar notes of many epochs and estimators into one per kind: they differ only in numbers, and the one of the epoch with the most packets
 * is kept.
 */
import { formatCount } from "../../base/quantity.ts";

interface Folded {
  note: string;
  epochs: number;
  weight: number;
}

export class NoteFolder {
  readonly #kinds = new Map<string, Folded>();

  add(notes: Iterable<string>, weight: number): void {
    for (const note of notes) {
      const kind = kindOf(note);
      const known = this.#kinds.get(kind);
      if (!known) {
        this.#kinds.set(kind, { note, epochs: 1, weight });
        continue;
      }
      known.epochs++;
      if (weight > known.weight) {
        known.weight = weight;
        known.note = note;
      }
    }
  }

  kinds(): ReadonlyMap<string, Folded> {
    return this.#kinds;
  }

  /** `without`: kinds listed elsewhere. */
  texts(without: ReadonlySet<string> = new Set()): string[] {
    return [...this.#kinds].filter(([kind]) => !without.has(kind)).map(([, folded]) => text(folded));
  }
}

/** Returns the kinds that several of the named folders have, listed once with the names. */
export function sharedNotes(folders: readonly (readonly [string, NoteFolder])[]): {
  kinds: Set<string>;
  notes: string[];
} {
  const names = new Map<string, string[]>();
  for (const [name, folder] of folders)
    for (const kind of folder.kinds().keys()) names.set(kind, [...(names.get(kind) ?? []), name]);
  const kinds = new Set([...names].filter(([, list]) => list.length > 1).map(([kind]) => kind));
  const notes = [...kinds].map((kind) => {
    const found = folders.map(([, folder]) => folder.kinds().get(kind)).filter((f) => f !== undefined);
    const [most] = found.sort((a, b) => b.weight - a.weight);
    return `${(names.get(kind) ?? []).join(", ")}: ${most ? text(most) : ""}`;
  });
  return { kinds, notes };
}

function text({ note, epochs }: Folded): string {
  return epochs === 1 ? note : `${note} (similar in ${formatCount(epochs)} epochs)`;
}

/** Normalises a note: numbers, rounding words and plurals make no difference ("about 0.5 %", "less than 0.1 %"; "1 flow", "2 flows"). */
function kindOf(note: string): string {
  return note
    .replace(/\b(about|less than) (?=\d)/g, "")
    .replace(/\d[\d.,]*(e[+-]\d+)?/g, "#")
    .replace(/# (\w+?)s?\b/g, "# $1");
}
