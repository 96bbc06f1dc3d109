/** A lookup request in kernel memory (kernels/maple/asked.ts): the addresses of the keys, of the answers and of the groups' counts, and the number of keys. */
import type { Kernels } from "../../../base/kernels.ts";

const ASKED_BYTES = 16;

export function withAsked(
  kernels: Kernels,
  question: { keys: number; count: number; out: number; counts?: number },
  use: (asked: number) => void,
): void {
  const { keys, count, out, counts = 0 } = question;
  const asked = kernels.alloc(ASKED_BYTES);
  kernels.u32.set([keys, count, out, counts], asked >>> 2);
  use(asked);
  kernels.free(asked);
}
