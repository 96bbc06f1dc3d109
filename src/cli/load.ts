/**
 * Loads the program in place of Node's own loader, with what the engine has compiled of it when it was built (scripts/code-cache.mjs): reading that
 * takes a third of the time that compiling anew takes. Another version of Node, or other flags, and the engine refuses it and compiles. What is
 * loaded are the pieces of the bundle (scripts/build-cli.mjs), which lie in one folder and ask for each other by file name.
 */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, dirname, join } from "node:path";
import { Script } from "node:vm";

/** Compiled pieces: u32 length of the index in JSON {name: [from, bytes]} | index | pieces, from its end on. */
interface Compiled {
  bytes: Buffer;
  index: Record<string, [number, number] | undefined>;
}

interface Piece {
  exports: unknown;
}

/** Where the pieces that were compiled are kept, for whoever makes the file of them; null mostly. */
export const kept: { scripts: Map<string, Script> | null } = { scripts: null };

const HEAD = "(function (exports, require, module, __filename, __dirname) {";
const native = createRequire(import.meta.url);

function readCompiled(file: string): Compiled | null {
  try {
    const bytes = readFileSync(file);
    const length = bytes.readUInt32LE(0);
    return { bytes: bytes.subarray(4 + length), index: JSON.parse(bytes.toString("utf8", 4, 4 + length)) };
  } catch {
    // Not made, or not readable: it is only faster with it.
    return null;
  }
}

/** Runs a program: `file` and the pieces it asks for. */
export function load(file: string): unknown {
  const folder = dirname(file);
  const compiled = kept.scripts ? null : readCompiled(join(folder, `${basename(file, ".js")}.compiled`));
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
    const [from, bytes] = compiled?.index[name] ?? [0, 0];
    const cachedData = compiled && bytes > 0 ? compiled.bytes.subarray(from, from + bytes) : undefined;
    const source = `${HEAD}${readFileSync(path, "utf8")}\n})`;
    const script = new Script(source, { filename: path, ...(cachedData ? { cachedData } : {}) });
    kept.scripts?.set(name, script);
    script.runInThisContext()(module.exports, require, module, path, folder);
    return module.exports;
  }
  return piece(file);
}
