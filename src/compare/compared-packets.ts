/** The packets of a comparison, with what is needed to find their frames in the captures again. */
import type { FlowKeySpec } from "../capture/flow/flow-key.ts";
import type { CaptureOptions } from "../capture/reader.ts";
import { isStandardInput } from "../capture/source/capture-path.ts";
import { findFrames } from "./frames.ts";
import type { PacketTable } from "./packets.ts";

export class ComparedPackets {
  readonly table: PacketTable;
  readonly #files: { before: string; after: string; filter?: string | undefined };
  readonly #capture: CaptureOptions;
  readonly #key: FlowKeySpec;

  constructor(
    table: PacketTable,
    files: { before: string; after: string; filter?: string | undefined },
    capture: CaptureOptions,
    key: FlowKeySpec,
  ) {
    this.table = table;
    this.#files = files;
    this.#capture = capture;
    this.#key = key;
  }

  /** Returns frame numbers of packets in one of the captures, 0 for a packet that is not in it; null if the capture cannot be read again. */
  async frames(side: "before" | "after", ids: ArrayLike<number>): Promise<Uint32Array | null> {
    const path = this.#files[side];
    if (isStandardInput(path)) return null;
    const { inner, cover, seed } = this.#capture;
    const { table } = this;
    return await findFrames({
      path,
      filter: this.#files.filter,
      capture: {
        ...(inner === undefined ? {} : { inner }),
        ...(cover === undefined ? {} : { cover }),
        ...(seed === undefined ? {} : { seed }),
      },
      key: this.#key,
      originNs: table.originNs,
      count: ids.length,
      timeNs: (i) => table.seenNs(side, ids[i] ?? 0),
      words: (i) => table.keyWords(ids[i] ?? 0),
      sharedFrame: (i) => table.log.sharedFrames(ids[i] ?? 0)?.[side] ?? null,
    });
  }
}
