/** Finds the observation points of one capture from its packets: interfaces of pcapng or ERF, or of `tcpdump -i any` (Linux cooked v2). */
import type { Kernels } from "../base/kernels.ts";
import { CaptureReader } from "./reader.ts";

/** Number of packets examined once two points are found; until then all packets are. */
const MIN_LOOKED_AT = 100_000;

export interface CapturePoint {
  /** The number written behind the # of `FILE#index`. */
  index: number;
  /** Null if the capture holds no name. */
  name: string | null;
}

/** Returns the interfaces by which packets came, in order of number; one if the capture does not say. */
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
