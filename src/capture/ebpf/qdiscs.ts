/** The queues of an interface by transmit queue, as `tc` lists them: for where the programs themselves cannot see them. */
import { execFile } from "node:child_process";

export interface Qdisc {
  kind: string;
  /** "8001:"; "" where it has none of its own. */
  handle: string;
}

interface Listed {
  kind?: unknown;
  handle?: unknown;
  root?: unknown;
  parent?: unknown;
}

const ASK_MS = 1000;

/** Null where tc is not there, or does not answer. */
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

/** Of a multiqueue root each transmit queue has a child, numbered from 1 on in hexadecimal: `parent 8001:2`, `:2`. */
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
