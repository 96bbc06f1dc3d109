/** Reads the packets of a capture file in batches, with the settings that the records were made with. */
import type { Kernels } from "../../base/kernels.ts";
import { compileFilter } from "../../capture/filter/filter.ts";
import type { FlowKeySpec } from "../../capture/flow/flow-key.ts";
import { CaptureReader } from "../../capture/reader.ts";
import type { PacketIdentity } from "../../estimators/estimator.ts";
import { type CapturedRows, capturedRows } from "./captured.ts";

export interface CaptureSettings {
  file: string;
  filter: string | undefined;
  /** From the records' heads, like the fields below. */
  cover: number;
  inner: boolean;
  seed: bigint;
  key: FlowKeySpec;
}

export async function* readCaptured(
  kernels: Kernels,
  { file, filter, cover, inner, seed, key }: CaptureSettings,
  identity: PacketIdentity,
): AsyncGenerator<CapturedRows> {
  const compiled = filter === undefined ? undefined : compileFilter(filter, kernels);
  try {
    const reader = await CaptureReader.open(kernels, file, { cover, inner, seed, key, filter: compiled });
    try {
      while (await reader.next()) yield capturedRows(kernels, reader, identity);
    } finally {
      reader.close();
      reader.free();
    }
  } finally {
    compiled?.free();
  }
}
