/** Folders made with their parents. Node's own `recursive` tries for ever where a parent is there and yet "no such file" is the answer (/proc, /sys). */
import { existsSync, mkdirSync, statSync } from "node:fs";
import { dirname } from "node:path";

/** The topmost folder that was made; undefined where all were there. */
export function makeDirectory(path: string): string | undefined {
  for (;;) {
    try {
      mkdirSync(path);
      return path;
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === "EEXIST" && statSync(path, { throwIfNoEntry: false })?.isDirectory()) return undefined;
      const parent = dirname(path);
      if (code !== "ENOENT" || parent === path || existsSync(parent)) throw error;
      const first = makeDirectory(parent);
      try {
        mkdirSync(path);
        return first ?? path;
      } catch (again) {
        // Somebody has removed the parent again, or made this one.
        const { code } = again as NodeJS.ErrnoException;
        if (code !== "EEXIST" && (code !== "ENOENT" || existsSync(parent))) throw again;
      }
    }
  }
}
