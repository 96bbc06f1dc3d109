/**
 * A way through this box as a segment: its two interfaces are the ends, and the kernel says of each forwarded packet when it came and when it left (../capture/ebpf/segment-source.ts). So every
 * estimator runs at both ends on one clock, and those that need each packet's delay have it exactly, without matching anything.
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
  /** Of packets that wait to be read, each of two rings; a power of two. */
  ringBytes?: number;
  /** The sender's and the receiver's. */
  points: readonly [string, string];
  collectorOf?: (point: string) => ObservePointOptions["collector"];
  onOpen?: (box: SegmentDatapath) => void;
}

const SEGMENT_RING_BYTES = 16 << 20;
/** Ethernet and a tag: what is left of a frame identifies the packet. */
const LINK_BYTES = 18;

/** The sender's report and the receiver's; the sender has none where all estimators keep records at the receiver only. */
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
      // One that fails ends the other, which keeps what it has.
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

/** What nobody asks for still has to leave its ring. */
async function drain(source: Source): Promise<null> {
  while ((await source.next()) !== null);
  source.close();
  return null;
}
