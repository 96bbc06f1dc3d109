/**
 * Answers a question about packets from a point's records (MAPLE, section 4): chooses the epochs, looks their packets up in the stores and combines
 * the answers by group. It reads only parts of payloads: a few hundred bytes per packet.
 */

import type { RecordArchive } from "../../archive/archive.ts";
import { UsageError } from "../../base/errors.ts";
import { Kernels } from "../../base/kernels.ts";
import { significant } from "../../base/quantity.ts";
import { FlowKeySpec } from "../../capture/flow/flow-key.ts";
import { formatFlowKey, parseFlowKey } from "../../capture/flow/flow-text.ts";
import { encodeFlowKey, hashFlowKey } from "../../capture/flow/flow-words.ts";
import { isRegularCapture } from "../../capture/source/capture-path.ts";
import type { RecordHead } from "../../epoch/record.ts";
import type { Estimator, IpidRange, PacketAnswers, PacketIdentity } from "../../estimators/estimator.ts";
import { combineAnswers, emptyAnswers } from "../../estimators/packet-answers.ts";
import { flowPacketKeys, joinRanges } from "../../estimators/packet-keys.ts";
import { ESTIMATORS } from "../../estimators/table.ts";
import type { PacketAnswer, PacketGroup } from "./answer.ts";
import { CapturedLookup, type CapturedPackets, joinPackets, offsetMiddle } from "./captured.ts";
import { type ClockOffset, findClockOffset, OFFSET_ROWS } from "./clock-offset.ts";
import { addCaptured, capturedNotes, composeAnswer, NOTED_FALSE_POSITIVES } from "./compose.ts";
import { type OpenEpoch, PacketEpochs } from "./epochs.ts";
import { PacketGroups } from "./groups.ts";
import {
  checkPacketQuestion,
  DEFAULT_WORST,
  formatDigest,
  type PacketQuestion,
  parseDigest,
  parseGrouping,
  slackOf,
} from "./question.ts";
import { readCaptured } from "./read-captured.ts";
import { type AskedFlow, digestQuestionBytes, flowQuestionBytes } from "./wire.ts";

export interface AskPacketsOptions {
  table?: readonly Estimator[];
  kernels?: Kernels;
}

const BY_DIGEST =
  "its packets can be asked by digest or by whole flows, not by IPID, and flows must be named";

export async function askPackets(
  archive: RecordArchive,
  question: PacketQuestion,
  options: AskPacketsOptions = {},
): Promise<PacketAnswer> {
  checkPacketQuestion(question);
  const kernels = options.kernels ?? new Kernels();
  const epochs = new PacketEpochs(archive, kernels, options.table ?? ESTIMATORS, question);
  const asking = new Asking(kernels, epochs, question);
  try {
    const { packets } = question;
    if (packets.by === "digest") asking.digests(packets.digests);
    else if (packets.by === "flow") asking.namedFlows(packets.flows, packets.ipids);
    else if (packets.by === "listed") asking.listed();
    else await asking.capture(packets.file, packets.filter);
    return asking.answer();
  } finally {
    epochs.free();
  }
}

interface FlowAsked {
  words: Uint32Array;
  hash: bigint;
  high: number;
  ipids: IpidRange[] | null;
  /** The IPIDs asked for, over all epochs. */
  listed: IpidRange[];
}

/** Answers flows in the wire format, one group each. Flows without IPID ranges: the packets that the records list. */
export function askWireFlows(
  kernels: Kernels,
  epochs: PacketEpochs,
  flows: readonly AskedFlow[],
): PacketGroup[] {
  const asking = new Asking(kernels, epochs, { packets: { by: "flow", flows: [], ipids: null }, worst: 0 });
  const asked = flows.map(({ words, ranges }) => ({
    words: Uint32Array.from(words),
    ipids: ranges.length === 0 ? null : ranges,
  }));
  asking.flows(asked);
  return asked.map(({ words }) => asking.groupOf(words));
}

class Asking {
  readonly #kernels: Kernels;
  readonly #epochs: PacketEpochs;
  readonly #question: PacketQuestion;
  readonly #head: RecordHead;
  readonly #spec: FlowKeySpec;
  readonly #groups: PacketGroups;
  readonly #notes: string[] = [];
  #questionBytes = 0;
  #withoutList = 0;
  /** The point's clock minus the capture's, if found. */
  #offsetNs = 0n;

  constructor(kernels: Kernels, epochs: PacketEpochs, question: PacketQuestion) {
    this.#kernels = kernels;
    this.#epochs = epochs;
    this.#question = question;
    this.#head = epochs.head();
    this.#spec = FlowKeySpec.parse(this.#head.key);
    const usual = question.packets.by === "digest" ? "packet" : undefined;
    this.#groups = new PacketGroups(
      this.#head.key,
      parseGrouping(question.group ?? usual),
      question.worst ?? DEFAULT_WORST,
    );
  }

  /** Looks up each digest in every epoch of the time range. */
  digests(texts: readonly string[]): void {
    const digests = BigUint64Array.from(texts, parseDigest);
    const { answers, times, falsePositives, boundsHold } = lookupDigests(this.#epochs, digests);
    for (const [i, timeNs] of times.entries()) {
      this.#groups.add(answers, i, { words: null, name: () => formatDigest(digests[i]!), timeNs });
    }
    if (falsePositives > NOTED_FALSE_POSITIVES) {
      this.#notes.push(
        `a packet that was never seen gets an answer with a probability of ${significant(100 * falsePositives, 2)} %`,
      );
    }
    if (boundsHold < 1) {
      this.#notes.push(
        `the bounds of a packet's delay hold for ${significant(100 * boundsHold, 3)} % of packets: this store overwrites or leaves out the others`,
      );
    }
    this.#questionBytes = digestQuestionBytes(digests.length);
  }

  namedFlows(texts: readonly string[], ipids: readonly IpidRange[] | null): void {
    this.flows(texts.map((text) => ({ words: encodeFlowKey(this.#spec, parseFlowKey(text)), ipids })));
  }

  flows(asked: readonly { words: Uint32Array; ipids: readonly IpidRange[] | null }[]): void {
    const flows = asked.map(({ words, ipids }) => {
      const [low, high] = hashFlowKey(this.#kernels, words, this.#head.seed);
      const hash = (BigInt(high) << 32n) | BigInt(low);
      return {
        words,
        high,
        hash,
        ipids: ipids === null ? null : joinRanges(ipids),
        listed: [] as IpidRange[],
      };
    });
    for (const { words } of flows) this.#groups.expect(words);
    this.#epochs.each((epoch) => this.#askFlows(epoch, flows));
    if (this.#withoutList > 0 && this.#withoutList === this.#epochs.asked) {
      throw new UsageError(
        "not-supported",
        "the records do not list flows and their IPIDs",
        "give ‘ipid’, or ‘capture’ with the packets",
      );
    }
    this.#questionBytes = flowQuestionBytes(
      flows.map(({ words, ipids, listed }) => ({ words, ranges: joinRanges(ipids ?? listed) })),
    );
  }

  #askFlows(epoch: OpenEpoch, flows: readonly FlowAsked[]): void {
    const { lookup } = epoch;
    let withoutList = false;
    for (const { words, hash, high, ipids, listed } of flows) {
      if (ipids === null && lookup.keepsFlows) {
        this.#requireUnordered();
        this.#askFlow(epoch, words, hash);
        continue;
      }
      requireIdentity(epoch, "flow-ipid", BY_DIGEST);
      if (!lookup.lists && ipids === null) {
        withoutList = lookup.has("flow-ipid");
        continue;
      }
      let ranges = ipids ?? [];
      if (lookup.lists) {
        // Only IPIDs that the records list are looked up, so no other IPID can get an answer by chance.
        const found = lookup.findFlow(high, words)?.ranges ?? [];
        ranges = ipids === null ? found : intersect(found, ipids);
      }
      listed.push(...ranges);
      this.#askRanges(epoch, words, hash, ranges);
    }
    if (withoutList) this.#withoutList++;
  }

  groupOf(words: Uint32Array): PacketGroup {
    return this.#groups.resultOf(words);
  }

  /** Answers all packets of the records. For one group without slowest packets, nothing needs to be listed. */
  listed(): void {
    const asOne = parseGrouping(this.#question.group).kind === "all";
    this.#epochs.each((epoch) => {
      if (asOne && (!epoch.lookup.lists || this.#question.worst === 0)) {
        this.#groups.total.addEvery(epoch.lookup.everyPacket(), epoch.head.counters.packets);
        return;
      }
      requireIdentity(epoch, "flow-ipid", BY_DIGEST);
      if (!epoch.lookup.lists && epoch.lookup.has("flow-ipid")) this.#withoutList++;
      for (const { keyWords, ranges } of epoch.lookup.flows()) {
        const [low, high] = hashFlowKey(this.#kernels, keyWords, this.#head.seed);
        this.#askRanges(epoch, keyWords, (BigInt(high) << 32n) | BigInt(low), ranges);
        this.#questionBytes += flowQuestionBytes([{ words: keyWords, ranges }], false);
      }
    });
    if (this.#withoutList === this.#epochs.asked) {
      throw new UsageError(
        "not-supported",
        "the records do not list flows and their IPIDs",
        "name packets, flows and IPIDs, or a capture",
      );
    }
  }

  async capture(file: string, filter: string | undefined): Promise<void> {
    const kernels = this.#kernels;
    const slackNs = slackOf(this.#question);
    const identity = this.#epochs.identity();
    const { cover, inner, seed } = this.#head;
    const capture = { file, filter, cover, inner, seed, key: this.#spec };
    let offset: ClockOffset | null = null;
    if (isRegularCapture(file)) {
      const first: CapturedPackets[] = [];
      let rows = 0;
      for await (const packets of readCaptured(kernels, capture, identity)) {
        first.push(packets);
        rows += packets.count;
        if (rows >= OFFSET_ROWS) break;
      }
      offset = findClockOffset(joinPackets(first), this.#epochs, identity, slackNs);
    }
    const lookup = new CapturedLookup(this.#epochs, identity, { slackNs, offset });
    for await (const packets of readCaptured(kernels, capture, identity))
      addCaptured(this.#groups, packets, lookup.ask(packets));
    this.#notes.push(...capturedNotes(lookup.facts, this.#groups.total));
    this.#offsetNs = offset ? offsetMiddle(offset).offsetNs : 0n;
    this.#questionBytes = digestQuestionBytes(lookup.facts.asked);
  }

  answer(): PacketAnswer {
    const withoutList = this.#withoutList;
    return composeAnswer(this.#question, this.#groups, {
      facts: this.#epochs.facts(),
      offsetNs: Number(this.#offsetNs),
      questionBytes: this.#questionBytes,
      notes: this.#notes,
      ...{ withoutList },
    });
  }

  /** Throws if single packets or sub-flows are asked for: delays kept per flow have no order. */
  #requireUnordered(): void {
    const { kind } = parseGrouping(this.#question.group);
    if (kind !== "packet" && kind !== "subflow") return;
    throw new UsageError(
      "not-supported",
      `the records keep the delays of a flow, not their order`,
      "give ‘capture’ with the packets, or observe with ‘maple identity=both,index=true’",
      { parameter: "group", value: this.#question.group },
    );
  }

  /** Looks up a flow whose delays are kept by its hash: all of its packets, which differ only in their delays. */
  #askFlow(epoch: OpenEpoch, words: Uint32Array, hash: bigint): void {
    const answers = epoch.lookup.flowPackets(hash);
    if (!answers) return;
    const timeNs = epoch.head.epoch.startNs;
    for (let i = 0; i < answers.count; i++) {
      const name = () => `${formatFlowKey(this.#spec.describe(words))}, one of ${answers.count}`;
      this.#groups.add(answers, i, { words, name, timeNs });
    }
  }

  #askRanges(epoch: OpenEpoch, words: Uint32Array, hash: bigint, ranges: readonly IpidRange[]): void {
    if (ranges.length === 0) return;
    const answers = epoch.lookup.lookup("flow-ipid", flowPacketKeys(this.#kernels, hash, ranges));
    const timeNs = epoch.head.epoch.startNs;
    let i = 0;
    for (const { first, last } of ranges) {
      for (let ipid = first; ipid <= last; ipid++, i++) {
        const name = () => `${formatFlowKey(this.#spec.describe(words))} ipid ${ipid}`;
        this.#groups.add(answers, i, { words, name, timeNs });
      }
    }
  }
}

/** Looks up each digest in every epoch of the time range. `times`: start of the epoch that answered. */
export function lookupDigests(
  epochs: PacketEpochs,
  digests: BigUint64Array,
): { answers: PacketAnswers; times: bigint[]; falsePositives: number; boundsHold: number } {
  const answers = emptyAnswers(digests.length);
  const times = new Array<bigint>(digests.length).fill(0n);
  let never = 1;
  let boundsHold = 1;
  epochs.each((epoch) => {
    requireIdentity(epoch, "digest", "its packets can be asked by flow and IPID only");
    never *= 1 - epoch.lookup.absentAccepted;
    boundsHold = Math.min(boundsHold, epoch.lookup.boundsHold);
    const more = epoch.lookup.lookup("digest", digests);
    for (let i = 0; i < digests.length; i++) {
      if (more.kind[i] !== 0 && more.groupPackets[i]! > answers.groupPackets[i]!)
        times[i] = epoch.head.epoch.startNs;
    }
    combineAnswers(answers, more);
  });
  return { answers, times, falsePositives: 1 - never, boundsHold };
}

function requireIdentity({ lookup, head }: OpenEpoch, identity: PacketIdentity, what: string): void {
  if (lookup.has(identity) || head.counters.packets === 0) return;
  // An epoch without any known delay stores nothing and is no reason to refuse.
  if (!lookup.has("digest") && !lookup.has("flow-ipid")) return;
  throw new UsageError(
    "not-supported",
    `${head.point}: ${what}`,
    "observe with ‘maple identity=both,index=true’",
  );
}

/** Intersects two lists of ranges, ascending; `listed` is ascending already. */
function intersect(listed: readonly IpidRange[], wanted: readonly IpidRange[]): IpidRange[] {
  return listed.flatMap((a) =>
    wanted.flatMap((b) => {
      const [first, last] = [Math.max(a.first, b.first), Math.min(a.last, b.last)];
      return first <= last ? [{ first, last }] : [];
    }),
  );
}
