/**
 * Finds files that ship with the code (kernels.wasm, report templates, demo captures). The same module runs from three places: the sources (src/base), the
 * built library (dist/base) and the bundled command line (dist/cli). The search goes upwards from whichever it is.
 */
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

/** Returns the path of a file of the package, such as "kernels.wasm" (built, in dist/) or "demo/router-in.pcap.gz", or null if it is missing. */
export function findPackageFile(name: string): string | null {
  for (let up = ".."; up.length < 12; up += "/..") {
    for (const folder of ["", "dist/"]) {
      const path = fileURLToPath(new URL(`${up}/${folder}${name}`, import.meta.url));
      if (existsSync(path)) return path;
    }
  }
  return null;
}
