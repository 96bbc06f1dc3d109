/**
 * Observes a way through this box as a segment: its two interfaces are the ends, and the kernel reports when each forwarded packet arrived and left
 * (../capture/ebpf/segment-source.ts). Every estimator can run at both ends on one clock, and those that need each packet's delay get it exactly,
 * without matching.
 */
import { UsageError } from "../base/errors.ts";
import { Kernels } from "../base/kernels.ts";
import { SegmentDatapath } from "../capture/ebpf/segment.ts";
import { SNAP_BYTES } from "../capture/ebpf/segment-layout.ts";
import type { Arrival, Departure, Way } from "../capture/ebpf/segment-load.ts";
import { segmentSources } from "../capture/ebpf/segment-source.ts";
import type { Source } from "../capture/source/source.ts";
import { OBSERVE_COVER } from "./observe-captures.ts";
import { type ObservationReport, type ObservePointOptions, observePoint } from "./observe-point.ts";
import { planTaps } from "./plan.ts";

type Common = Omit<
  ObservePointOptions,
  "files" | "point" | "interface" | "kernels" | "source" | "delays" | "collector" | "role"
>;

export interface ObserveSegmentOptions extends Common {
  way: Way;
  arrival?: Arrival | undefined;
  departure?: Departure | undefined;
  /** Size of each of the two rings of packets waiting to be read; a power of two. */
  ringBytes?: number;
  /** Names of the sender and the receiver. */
  points: readonly [string, string];
  collectorOf?: (point: string) => ObservePointOptions["collector"];
  onOpen?: (box: SegmentDatapath) => void;
}

const SEGMENT_RING_BYTES = 16 << 20;
/** Ethernet and one tag; the rest of the frame identifies the packet. */
const LINK_BYTES = 18;

/** Returns the reports of sender and receiver; no sender report if all estimators keep records at the receiver only. */
export async function observeSegment(options: ObserveSegmentOptions): Promise<ObservationReport[]> {
  const { way, points, arrival, departure, ringBytes, collectorOf, onOpen, ...rest } = options;
  const most = SNAP_BYTES - LINK_BYTES;
  const { cover = OBSERVE_COVER } = options;
  if (cover > most)
    throw new UsageError(
      "bad-option",
      `${cover} bytes are more than the kernel hands out`,
      `use up to ${most}`,
      {
        parameter: "cover",
        value: cover,
      },
    );
  if (points[0] === points[1]) throw new UsageError("bad-option", `'${points[0]}' is given twice`);
  const plans = planTaps(options);
  const atSender = plans.filter(({ estimator }) => estimator.needs.sender);
  const ending = new AbortController();
  const signal = options.signal ? AbortSignal.any([options.signal, ending.signal]) : ending.signal;
  const kernels = new Kernels();
  const box = await SegmentDatapath.open({
    ...{ ways: [way], arrival, departure },
    ringBytes: ringBytes ?? SEGMENT_RING_BYTES,
  });
  onOpen?.(box);
  const { inner = false, seed } = options;
  const capture = { cover, inner, ...(seed === undefined ? {} : { seed }) };
  const sources = segmentSources(kernels, box, { capture, signal });
  const of = (role: "sender" | "receiver"): ObservePointOptions => {
    const point = points[role === "sender" ? 0 : 1];
    return {
      ...rest,
      ...{ kernels, signal, role, point, files: [], source: sources[role] },
      collector: collectorOf?.(point),
      estimators: role === "sender" ? atSender.map(({ estimator }) => estimator.name) : options.estimators,
    };
  };
  try {
    const running = [
      atSender.length > 0 ? observePoint(of("sender")) : drain(sources.sender),
      observePoint(of("receiver")),
    ].map((one) =>
      // If one fails, the other ends and keeps what it has.
      one.catch((error: unknown) => {
        ending.abort();
        throw error;
      }),
    );
    const outcomes = await Promise.allSettled(running);
    const failed = outcomes.find((outcome) => outcome.status === "rejected");
    if (failed) throw failed.reason;
    return outcomes.flatMap((o) => (o.status === "fulfilled" && o.value ? [o.value] : []));
  } finally {
    sources.sender.close();
    sources.receiver.close();
  }
}

/** Reads packets that no tap needs, to empty their ring. */
async function drain(source: Source): Promise<null> {
  while ((await source.next()) !== null);
  source.close();
  return null;
}
