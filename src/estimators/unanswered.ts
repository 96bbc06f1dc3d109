/** The answers of estimators that compare the sketches of both ends, if there is nothing to compare. */
import type { EstimateInput, NoAnswer, ParameterValues, SealedEpoch, SegmentEstimate } from "./estimator.ts";

type Ends = Pick<EstimateInput<ParameterValues>, "sender" | "receiver">;

/** Returns the reason for no answer if one end is missing. */
export function missingEnd({ sender }: Ends): NoAnswer {
  const text = `the ${sender ? "receiver" : "sender"}'s epoch is missing: a difference needs both ends`;
  return { reason: "no-packets", text };
}

/** Returns the reason for no answer if an end saw no packet, with the lost packets as far as known; null if both ends saw packets. */
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
