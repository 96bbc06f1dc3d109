/** Replaces src/capture/source/capture-path.ts: the files are those given to the page, and there is no standard input. */
import type * as original from "../../../src/capture/source/capture-path.ts";
import { fileOf } from "./files.ts";

export type { CapturePath } from "../../../src/capture/source/capture-path.ts";

export const parseCapturePath: typeof original.parseCapturePath = (path) => {
  if (fileOf(path)) return { file: path, point: null };
  for (let at = path.lastIndexOf("#"); at > 0; at = path.lastIndexOf("#", at - 1)) {
    const file = path.slice(0, at);
    if (fileOf(file)) return { file, point: path.slice(at + 1) };
  }
  return { file: path, point: null };
};

export const isStandardInput: typeof original.isStandardInput = () => false;
export const isRegularCapture: typeof original.isRegularCapture = () => true;
