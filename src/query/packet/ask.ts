/**
 * A question about packets, answered from a point's records (MAPLE, section 4): which epochs, which packets of them, what their stores
 * say, put together by group. Works on parts of payloads: a packet costs a few hundred bytes read.
 */

import type { RecordArchive } from "../../archive/archive.ts";
import { UsageError } from "../../base/errors.ts";
import { Kernels } from "../../base/kernels.ts";
import { required } from "../../base/lists.ts";
import { countOf, formatCount, significant } from "../../base/quantity.ts";
import { formatDuration } from "../../base/time.ts";
import { VERSION } from "../../base/version.ts";
import { compileFilter } from "../../capture/filter/filter.ts";
import { FlowKeySpec } from "../../capture/flow/flow-key.ts";
import { formatFlowKey, parseFlowKey } from "../../capture/flow/flow-text.ts";
import { encodeFlowKey, hashFlowKey } from "../../capture/flow/flow-words.ts";
import { CaptureReader } from "../../capture/reader.ts";
import { isRegularCapture } from "../../capture/source/capture-path.ts";
import type { RecordHead } from "../../epoch/record.ts";
import type { Estimator, IpidRange, PacketIdentity } from "../../estimators/estimator.ts";
import { combineAnswers, emptyAnswers, scatterAnswers } from "../../estimators/packet-answers.ts";
import { flowPacketKey, flowPacketKeys, joinRanges } from "../../estimators/packet-keys.ts";
import { ESTIMATORS } from "../../estimators/table.ts";
import { PACKET_ANSWER_FORMAT, type PacketAnswer } from "./answer.ts";
import { type ClockOffset, findClockOffset } from "./clock-offset.ts";
import { type OpenEpoch, PacketEpochs } from "./epochs.ts";
import { PacketGroups } from "./groups.ts";
import {
  checkPacketQuestion,
  DEFAULT_SLACK_NS,
  DEFAULT_WORST,
  describePacketQuestion,
  formatDigest,
  type PacketQuestion,
  parseDigest,
  parseGrouping,
} from "./question.ts";
import { answerBytes, digestQuestionBytes, flowQuestionBytes } from "./wire.ts";

export interface AskPacketsOptions {
  table?: readonly Estimator[];
  kernels?: Kernels;
}

const BY_DIGEST =
  "its packets can be asked by digest or by whole flows, not by IPID, and flows must be named";

/** More answers than this are expected for packets that never came by: a note says so. */
const NOTED_FALSE_POSITIVES = 0.01;

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
    else if (packets.by === "flow") asking.flows(packets.flows, packets.ipids);
    else if (packets.by === "listed") asking.listed();
    else await asking.capture(packets.file, packets.filter);
    return asking.answer();
  } finally {
    epochs.free();
  }
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
  /** Summed over the packets of a capture: the probability that it would be answered had it never come by; and packets asked in any epoch. */
  #falsePositives = { expected: 0, packets: 0 };
  /** Point's clock minus the capture's, as far as it was found, and how far that may be off. */
  #offsetNs = 0n;
  #offsetSlackNs = 0n;

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

  /** Each digest is asked in every epoch of the time. */
  digests(texts: readonly string[]): void {
    const digests = BigUint64Array.from(texts, parseDigest);
    const answers = emptyAnswers(digests.length);
    const times = new Array<bigint>(digests.length).fill(0n);
    let falsePositives = 1;
    let boundsHold = 1;
    this.#each((epoch) => {
      this.#require(epoch, "digest", "its packets can be asked by flow and IPID only");
      falsePositives *= 1 - epoch.lookup.absentAccepted;
      boundsHold = Math.min(boundsHold, epoch.lookup.boundsHold);
      const more = epoch.lookup.lookup("digest", digests);
      for (let i = 0; i < digests.length; i++) {
        if (more.kind[i] !== 0 && more.groupPackets[i]! > answers.groupPackets[i]!)
          times[i] = epoch.head.epoch.startNs;
      }
      combineAnswers(answers, more);
    });
    for (const [i, timeNs] of times.entries()) {
      this.#groups.add(answers, i, { words: null, name: () => formatDigest(digests[i]!), timeNs });
    }
    if (1 - falsePositives > NOTED_FALSE_POSITIVES) {
      this.#notes.push(
        `a packet that was never seen gets an answer with a probability of ${significant(100 * (1 - falsePositives), 2)} %`,
      );
    }
    if (boundsHold < 1) {
      this.#notes.push(
        `the bounds of a packet's delay hold for ${significant(100 * boundsHold, 3)} % of packets: this store overwrites or leaves out the others`,
      );
    }
    this.#questionBytes = digestQuestionBytes(digests.length);
  }

  flows(texts: readonly string[], wanted: readonly IpidRange[] | null): void {
    const ipids = wanted === null ? null : joinRanges(wanted);
    const flows = texts.map((text) => {
      const words = encodeFlowKey(this.#spec, parseFlowKey(text));
      const [low, high] = hashFlowKey(this.#kernels, words, this.#head.seed);
      return { words, high, hash: (BigInt(high) << 32n) | BigInt(low), listedIpids: [] as IpidRange[] };
    });
    for (const { words } of flows) this.#groups.expect(words);
    this.#each((epoch) => {
      if (ipids === null && epoch.lookup.keepsFlows) {
        this.#requireUnordered();
        for (const { words, hash } of flows) this.#askFlow(epoch, words, hash);
        return;
      }
      this.#require(epoch, "flow-ipid", BY_DIGEST);
      if (!epoch.lookup.lists && ipids === null) {
        if (epoch.lookup.has("flow-ipid")) this.#withoutList++;
        return;
      }
      for (const { words, hash, high, listedIpids } of flows) {
        let ranges = ipids ?? [];
        if (epoch.lookup.lists) {
          // Only IPIDs that came by are asked: nothing else could be answered by chance.
          const listed = epoch.lookup.findFlow(high, words)?.ranges ?? [];
          ranges = ipids === null ? listed : intersect(listed, ipids);
        }
        listedIpids.push(...ranges);
        this.#askRanges(epoch, words, hash, ranges);
      }
    });
    if (this.#withoutList > 0 && this.#withoutList === this.#epochs.asked) {
      throw new UsageError(
        "not-supported",
        "the records do not list flows and their IPIDs",
        "give ‘ipid’, or ‘capture’ with the packets",
      );
    }
    this.#questionBytes = flowQuestionBytes(
      flows.map(({ words, listedIpids }) => ({ words, ranges: joinRanges(ipids ?? listedIpids) })),
    );
  }

  listed(): void {
    this.#each((epoch) => {
      this.#require(epoch, "flow-ipid", BY_DIGEST);
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

  /** Every packet of the capture is asked in the epoch of its time; near an edge in the neighbour too. */
  async capture(file: string, filter: string | undefined): Promise<void> {
    const kernels = this.#kernels;
    const { cover, inner, seed } = this.#head;
    const compiled = filter === undefined ? undefined : compileFilter(filter, kernels);
    const open = () =>
      CaptureReader.open(kernels, file, { cover, inner, seed, key: this.#spec, filter: compiled });
    const offset = isRegularCapture(file)
      ? await findClockOffset(kernels, await open(), this.#epochs, this.#slackNs)
      : null;
    if (offset) this.#useOffset(offset);
    const reader = await open();
    let asked = 0;
    let outside = 0;
    try {
      while (await reader.next()) {
        outside += this.#askBatch(reader);
        asked += reader.batch.count;
      }
    } finally {
      reader.close();
      reader.free();
      compiled?.free();
    }
    if (outside > 0)
      this.#notes.push(
        `${formatCount(outside)} of ${countOf(asked, "packet")} of the capture are outside the time of the records`,
      );
    this.#noteFalsePositives();
    this.#questionBytes = digestQuestionBytes(asked);
  }

  /** The capture's clock may be ahead or behind. */
  #useOffset({ lowNs, highNs, agree, tried, asCaptured }: ClockOffset): void {
    this.#offsetNs = (lowNs + highNs) / 2n;
    this.#offsetSlackNs = (highNs - lowNs) / 2n + 1n;
    const by = formatDuration(Math.abs(Number(this.#offsetNs)));
    const way = this.#offsetNs > 0n ? "behind" : "ahead of";
    this.#notes.push(
      `the capture's clock is about ${by} ${way} the point's (±${formatDuration(Number(this.#offsetSlackNs))}): ${agree} of ${tried} packets are found there, ${asCaptured} at their own times; all are asked there`,
    );
  }

  get #slackNs(): bigint {
    return BigInt(Math.round(this.#question.slackNs ?? DEFAULT_SLACK_NS));
  }

  /** A capture may hold packets that never came by the point: what they would be answered with is chance. */
  #noteFalsePositives(): void {
    const { expected, packets } = this.#falsePositives;
    if (packets === 0) return;
    const share = expected / packets;
    const { total } = this.#groups;
    const found = total.matched + total.multi;
    if (share > NOTED_FALSE_POSITIVES)
      this.#notes.push(
        `a packet of the capture that never passed this point gets an answer with a probability of ${significant(100 * share, 2)} %: a smaller ‘slack’ asks fewer epochs`,
      );
    // Answers that chance explains: the packets are not there, or in epochs that were not asked.
    if (found > 0 && found <= expected + 3 * Math.sqrt(expected))
      this.#notes.push(
        `the ${countOf(found, "answer")} are no more than false positives explain: the packets did not pass this point, or the clocks of capture and point differ by more than ‘slack’`,
      );
  }

  answer(): PacketAnswer {
    const { entries, refused, point, asked, packets, readBytes } = this.#epochs;
    const { total } = this.#groups;
    const groups = this.#groups.results(this.#question.top);
    const costs = this.#epochs.costs.text();
    if (costs !== null) this.#notes.push(`the records asked take ${costs}`);
    const { unchecked } = this.#epochs;
    if (unchecked.size > 0)
      this.#notes.push(`${countOf(unchecked.size, "record")} not checked for damage: ask for a shorter time`);
    if (this.#withoutList > 0)
      this.#notes.push(`in ${countOf(this.#withoutList, "epoch")} flows are not listed`);
    return {
      format: PACKET_ANSWER_FORMAT,
      hoptime: VERSION,
      question: describePacketQuestion(this.#question),
      points: [{ name: point, role: "receiver", records: asked, packets }],
      epochs: {
        asked,
        firstNs: entries[0]?.epoch.startNs.toString() ?? null,
        lastNs: entries.at(-1)?.epoch.endNs.toString() ?? null,
        offsetNs: Number(this.#offsetNs),
        refused,
      },
      packets: total.packets,
      matched: total.matched,
      multi: total.multi,
      missing: total.packets - total.matched - total.multi,
      bytes: { question: this.#questionBytes, answer: answerBytes(groups), read: readBytes },
      groups,
      notes: this.#notes,
    };
  }

  #each(ask: (epoch: OpenEpoch) => void): void {
    for (let i = 0; i < this.#epochs.entries.length; i++) {
      this.#ask(i, ask);
    }
  }

  /** What a damaged store makes of a lookup is that record's fault; what a question asks for in vain is the question's. */
  #ask(index: number, ask: (epoch: OpenEpoch) => void): void {
    const epoch = this.#epochs.open(index);
    if (!epoch) return;
    try {
      ask(epoch);
    } catch (error) {
      if (error instanceof UsageError) throw error;
      this.#epochs.refuse(index, error);
    }
  }

  #require({ lookup, head }: OpenEpoch, identity: PacketIdentity, what: string): void {
    if (lookup.has(identity) || head.counters.packets === 0) return;
    // An epoch without a single known delay keeps nothing: it is no reason to refuse.
    if (!lookup.has("digest") && !lookup.has("flow-ipid")) return;
    throw new UsageError(
      "not-supported",
      `${head.point}: ${what}`,
      "observe with ‘maple identity=both,index=true’",
    );
  }

  /** Delays that are kept by flow are in no order: neither single packets nor runs of them can be answered. */
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

  /** A flow whose delays are kept by its hash: all its packets, distinguished by nothing but their delays. */
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

  /** Returns how many rows lie in no epoch. */
  #askBatch(reader: CaptureReader): number {
    const kernels = this.#kernels;
    const { batch } = reader;
    const originNs = required(reader.originNs, "the capture's first timestamp");
    const slack = this.#slackNs + this.#offsetSlackNs;
    const n = batch.count;
    const digests = kernels.u64.slice(batch.column("digest") >>> 3, (batch.column("digest") >>> 3) + n);
    const hashes = kernels.u64.slice(batch.column("flowHash") >>> 3, (batch.column("flowHash") >>> 3) + n);
    const [times, lengths, ipids] = [
      batch.timeNs.slice(0, n),
      batch.wireLength.slice(0, n),
      batch.ipid.slice(0, n),
    ];
    const columns = [batch.meta, batch.addrA, batch.addrB, batch.addrC, batch.addrD].map((c) =>
      c.slice(0, 2 * n),
    );
    const answers = emptyAnswers(n);
    const rowsOf = new Map<number, number[]>();
    let outside = 0;
    for (let i = 0; i < n; i++) {
      const at = originNs + BigInt(Math.round(times[i]!)) + this.#offsetNs;
      const found = this.#epochs.between(at - slack, at + slack);
      if (found.length === 0) outside++;
      for (const epoch of found) {
        const rows = rowsOf.get(epoch);
        if (rows) rows.push(i);
        else rowsOf.set(epoch, [i]);
      }
    }
    const unanswered = new Float64Array(n).fill(1);
    for (const [index, rows] of rowsOf) {
      this.#ask(index, ({ lookup }) => {
        const byDigest = lookup.has("digest");
        const keys = BigUint64Array.from(rows, (i) =>
          byDigest ? digests[i]! : flowPacketKey(kernels, hashes[i]!, ipids[i]!),
        );
        const sizes = Uint32Array.from(rows, (i) => lengths[i]!);
        for (const i of rows) unanswered[i]! *= 1 - lookup.absentAccepted;
        combineAnswers(
          answers,
          scatterAnswers(lookup.lookup(byDigest ? "digest" : "flow-ipid", keys, sizes), rows, n),
        );
      });
    }
    for (const chance of unanswered) this.#falsePositives.expected += 1 - chance;
    this.#falsePositives.packets += n - outside;
    for (let i = 0; i < n; i++) {
      const words = Uint32Array.from(columns.flatMap((column) => [column[2 * i]!, column[2 * i + 1]!]));
      const timeNs = originNs + BigInt(Math.round(times[i]!));
      this.#groups.add(answers, i, { words, name: () => formatDigest(digests[i]!), timeNs });
    }
    return outside;
  }
}

/** What both lists of ranges hold, ascending; `listed` is ascending already. */
function intersect(listed: readonly IpidRange[], wanted: readonly IpidRange[]): IpidRange[] {
  return listed.flatMap((a) =>
    wanted.flatMap((b) => {
      const [first, last] = [Math.max(a.first, b.first), Math.min(a.last, b.last)];
      return first <= last ? [{ first, last }] : [];
    }),
  );
}
