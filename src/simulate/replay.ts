/**
 * Replays a capture with its (scaled) arrival times, lengths and flows. In a loop, each repetition starts where the one before ended and has new flow keys.
 * Captures of up to KEEP_ROWS packets are kept in memory after the first loop; longer ones are read again.
 */
import { UsageError } from "../base/errors.ts";
import type { Kernels } from "../base/kernels.ts";
import { CaptureReader } from "../capture/reader.ts";
import { writeFields } from "./keys.ts";
import type { ReplayTraffic } from "./scenario.ts";
import type { Source, SourceIdentity } from "./source.ts";

/** 88 bytes per row. */
const KEEP_ROWS = 1 << 20;
const USED_UP = 0;
const FULL = 1;

export async function openReplay(kernels: Kernels, t: ReplayTraffic, id: SourceIdentity): Promise<Source> {
  const scale = t.timeScale ?? 1;
  if (!(scale > 0)) throw new UsageError("bad-parameter", "timeScale must be above 0");
  const endNs = t.durationS === undefined ? Number.POSITIVE_INFINITY : t.durationS * 1e9;
  const address = kernels.call.simReplayNew(BigInt(id.seed)) >>> 0;
  writeFields(kernels, address, [scale, endNs, 0, id.kind, id.flags ?? 0]);
  let reader: CaptureReader | null = await CaptureReader.open(kernels, t.file);
  let keep = true;
  let ended = false;
  let loop = 0;
  /** Rows read in the current loop. */
  let rows = 0;
  let shift = 0;

  const nextLoop = async () => {
    const last = kernels.call.simReplayLast(address) as number;
    // Loops are one mean gap apart; a capture with only one packet (or one timestamp) is repeated every second.
    const gap = rows > 1 && last > shift ? (last - shift) / (rows - 1) : 1e9;
    if (t.durationS === undefined || rows === 0) {
      ended = true;
      return;
    }
    loop += 1;
    shift = last + Math.max(1, gap);
    kernels.call.simReplayRewind(address, loop, shift, keep ? 0 : 1);
    if (!keep) {
      rows = 0;
      reader = await CaptureReader.open(kernels, t.file);
    }
  };

  return {
    durationNs: Number.isFinite(endNs) ? endNs : null,
    fill: async (batch) => {
      batch.count = 0;
      while (!ended) {
        const outcome = kernels.call.simReplayFill(address, batch.address) as number;
        if (outcome === FULL) return;
        if (outcome !== USED_UP) {
          ended = true;
          return;
        }
        if (reader && (await reader.next())) {
          rows += reader.batch.count;
          if (rows > KEEP_ROWS) keep = false;
          kernels.call.simReplayTake(address, reader.batch.address, keep ? 0 : 1);
          continue;
        }
        if (reader) {
          reader.close();
          reader.free();
          reader = null;
        }
        await nextLoop();
      }
    },
    free: () => {
      if (reader) {
        reader.close();
        reader.free();
      }
      kernels.call.simReplayFree(address);
    },
  };
}
