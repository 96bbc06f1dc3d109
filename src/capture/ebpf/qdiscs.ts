/** Lists the queueing disciplines of an interface by transmit queue, from `tc`, for cases where the programs cannot see them. */
import { execFile } from "node:child_process";

export interface Qdisc {
  kind: string;
  /** Such as "8001:"; "" if it has no handle. */
  handle: string;
}

interface Listed {
  kind?: unknown;
  handle?: unknown;
  root?: unknown;
  parent?: unknown;
}

const ASK_MS = 1000;

/** Returns null if tc is missing or fails. */
export function listQdiscs(name: string): Promise<Listed[] | null> {
  return new Promise((resolve) => {
    execFile("tc", ["-j", "qdisc", "show", "dev", name], { timeout: ASK_MS }, (error, stdout) => {
      try {
        const list: unknown = error ? null : JSON.parse(stdout);
        resolve(Array.isArray(list) ? list : null);
      } catch {
        resolve(null);
      }
    });
  });
}

/** Returns the qdisc of a transmit queue. A multiqueue root has a child for each queue, numbered in hexadecimal from 1: `parent 8001:2`, `:2`. */
export function qdiscOfQueue(list: readonly Listed[], queue: number): Qdisc | null {
  const child = list.find(
    ({ parent }) =>
      typeof parent === "string" && Number.parseInt(parent.split(":")[1] ?? "", 16) === queue + 1,
  );
  const root = list.find((q) => q.root === true);
  const found = isMultiqueue(root) ? (child ?? root) : root;
  if (!found || typeof found.kind !== "string") return null;
  const handle = typeof found.handle === "string" && found.handle !== "0:" ? found.handle : "";
  return { kind: found.kind, handle };
}

const isMultiqueue = (root: Listed | undefined) => root?.kind === "mq" || root?.kind === "mqprio";
