/** What estimators that compare the sketches of both ends say where there is nothing to compare. */
import type { EstimateInput, NoAnswer, ParameterValues, SealedEpoch, SegmentEstimate } from "./estimator.ts";

type Ends = Pick<EstimateInput<ParameterValues>, "sender" | "receiver">;

/** Why there is nothing to compare: an end is missing. */
export function missingEnd({ sender }: Ends): NoAnswer {
  const text = `the ${sender ? "receiver" : "sender"}'s epoch is missing: a difference needs both ends`;
  return { reason: "no-packets", text };
}

/** And here: an end saw no packet; with the packets lost, as far as that is known. */
export function emptyEnd(
  sender: SealedEpoch,
  receiver: SealedEpoch,
): { why: NoAnswer; lost: number | null } | null {
  if (sender.packets > 0 && receiver.packets > 0) return null;
  const text =
    sender.packets === receiver.packets
      ? "neither end saw a packet in this epoch"
      : `the ${sender.packets === 0 ? "sender" : "receiver"} saw no packet in this epoch`;
  return { why: { reason: "no-packets", text }, lost: receiver.packets === 0 ? sender.packets : null };
}

export function unansweredSegment(
  why: NoAnswer,
  { sender, receiver }: Ends,
  lost: number | null,
  notes: string[],
): SegmentEstimate {
  return {
    mean: why,
    stdev: why,
    sent: sender?.packets ?? null,
    received: receiver?.packets ?? null,
    lost,
    packetsUsed: 0,
    coverage: 0,
    notes,
  };
}
