/** Adds cells that were filled outside of the kernels' memory (datapath/) to those of a tap. */
import type { Kernels } from "../../base/kernels.ts";

const CELL_BYTES = 16;
const PIECE_BYTES = 1 << 18;

/** `to`: address of the tap's cells; each of `parts` has the same number of cells. */
export function foldCells(kernels: Kernels, to: number, parts: readonly Uint8Array[]): void {
  const room = kernels.alloc(PIECE_BYTES);
  for (const part of parts) {
    for (let at = 0; at < part.length; at += PIECE_BYTES) {
      const piece = part.subarray(at, at + PIECE_BYTES);
      kernels.u8.set(piece, room);
      kernels.call.cellsFold(to + at, room, piece.length / CELL_BYTES);
    }
  }
  kernels.free(room);
}
