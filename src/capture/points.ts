/** The observation points of one capture, as their packets tell them: interfaces of pcapng or ERF, or of `tcpdump -i any` (Linux cooked v2). */
import type { Kernels } from "../base/kernels.ts";
import { CaptureReader } from "./reader.ts";

/** Packets looked at where two points were found among them; until two are found, all are. */
const MIN_LOOKED_AT = 100_000;

export interface CapturePoint {
  /** What is written behind the # of `FILE#index`. */
  index: number;
  /** Null where the capture holds none. */
  name: string | null;
}

/** Interfaces that packets came by, in order of number; one where the capture does not tell. */
export async function pointsOf(kernels: Kernels, file: string): Promise<CapturePoint[]> {
  const reader = await CaptureReader.open(kernels, file);
  const found = new Set<number>();
  try {
    for (let rows = 0; (rows < MIN_LOOKED_AT || found.size < 2) && (await reader.next()); ) {
      const { iface, count } = reader.batch;
      for (let i = 0; i < count; i++) found.add(iface[i] ?? 0);
      rows += count;
    }
    const { interfaces } = reader.statistics();
    const nameOf = (index: number) => {
      const described = reader.format === "pcapng" ? interfaces[index] : undefined;
      return described?.name ?? described?.description ?? null;
    };
    return [...found].sort((a, b) => a - b).map((index) => ({ index, name: nameOf(index) }));
  } finally {
    reader.close();
    reader.free();
  }
}
