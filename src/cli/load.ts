/**
 * Loads the program instead of Node's own loader, with the engine's compiled code from the build (scripts/code-cache.mjs): reading it takes a third of the time
 * of compiling. With another version of Node or other flags, the engine rejects that code and compiles. The pieces of the bundle (scripts/build-cli.mjs) are in
 * one directory and require each other by file name.
 */
import { openSync, readFileSync, readSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, dirname, join } from "node:path";
import { Script } from "node:vm";

/**
 * Compiled pieces of all commands; a command reads only its own. Format: u32 length of the index | index as JSON {name: [from, bytes]} | pieces, with offsets from the end of the index.
 */
interface Compiled {
  file: number;
  start: number;
  index: Record<string, [number, number] | undefined>;
}

interface Piece {
  exports: unknown;
}

/** Collects the compiled pieces while the file with them is made; otherwise null. */
export const kept: { scripts: Map<string, Script> | null } = { scripts: null };

const HEAD = "(function (exports, require, module, __filename, __dirname) {";
const native = createRequire(import.meta.url);

function readAt(file: number, from: number, bytes: number): Buffer {
  const into = Buffer.allocUnsafe(bytes);
  return into.subarray(0, readSync(file, into, 0, bytes, from));
}

function openCompiled(path: string): Compiled | null {
  try {
    const file = openSync(path, "r");
    const length = readAt(file, 0, 4).readUInt32LE(0);
    return { file, start: 4 + length, index: JSON.parse(readAt(file, 4, length).toString("utf8")) };
  } catch {
    // Missing or not readable: the program only starts slower.
    return null;
  }
}

function cachedOf({ file, start, index }: Compiled, name: string): Buffer | undefined {
  const [from, bytes] = index[name] ?? [0, 0];
  return bytes > 0 ? readAt(file, start + from, bytes) : undefined;
}

/** Runs a program: `file` and the pieces it requires. */
export function load(file: string): unknown {
  const folder = dirname(file);
  const compiled = kept.scripts ? null : openCompiled(join(folder, `${basename(file, ".js")}.compiled`));
  const loaded = new Map<string, Piece>();
  const require = Object.assign(
    (id: string): unknown => (id.startsWith("./") ? piece(join(folder, id)) : native(id)),
    { main: native.main, cache: native.cache, resolve: native.resolve },
  );
  function piece(path: string): unknown {
    const known = loaded.get(path);
    if (known) return known.exports;
    const module: Piece = { exports: {} };
    loaded.set(path, module);
    const name = basename(path);
    const cachedData = compiled ? cachedOf(compiled, name) : undefined;
    const source = `${HEAD}${readFileSync(path, "utf8")}\n})`;
    const script = new Script(source, { filename: path, ...(cachedData ? { cachedData } : {}) });
    kept.scripts?.set(name, script);
    script.runInThisContext()(module.exports, require, module, path, folder);
    return module.exports;
  }
  return piece(file);
}
