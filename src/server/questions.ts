/** Questions answered from records, as data: they cross threads and the network. Each corresponds to one library call on the archive. */
import Type, { type Static } from "typebox";
import { RecordArchive } from "../archive/archive.ts";
import { LayeredStorage } from "../archive/layered-storage.ts";
import type { ObjectPlace } from "../archive/objects/object-place.ts";
import { ObjectStorage } from "../archive/objects/object-storage.ts";
import { FILES } from "../archive/storage.ts";
import { UsageError } from "../base/errors.ts";
import { Kernels } from "../base/kernels.ts";
import { parseTime } from "../base/time.ts";
import type { FlowRecord } from "../flow-records/flow-records.ts";
import { absoluteTimes } from "../network/localise/from-captures.ts";
import { localiseRecords } from "../network/localise/from-records.ts";
import { askPackets } from "../query/packet/ask.ts";
import { type AskedPackets, type PacketQuestion, parseIpids } from "../query/packet/question.ts";
import { packetSettings, servePackets } from "../query/packet/serve.ts";
import { askArchive } from "../query/segment/ask.ts";
import { problemOf } from "./problem.ts";

const NAME = Type.String({ minLength: 1, maxLength: 64 });
/** A time as on the command line: ns, seconds with a decimal point, or ISO 8601. */
const TIME = Type.String({ minLength: 1, maxLength: 40 });
const span = { from: Type.Optional(TIME), to: Type.Optional(TIME) };
const closed = { additionalProperties: false };

const FLOW_ROW = { minItems: 11, maxItems: 11 };
/** As many flow rows as fit into one question. */
export const MAX_FLOW_ROWS = 500_000;
export const MAX_QUESTION_BYTES = 32 << 20;

export const SEGMENT_QUESTION = Type.Object(
  {
    between: Type.Array(NAME, { minItems: 2, maxItems: 2 }),
    segment: Type.Optional(Type.String({ maxLength: 64 })),
    estimators: Type.Optional(Type.Array(NAME, { maxItems: 32 })),
    flows: Type.Optional(Type.Array(Type.String({ maxLength: 200 }), { maxItems: 1000 })),
    top: Type.Optional(Type.Integer({ minimum: 1, maximum: 100_000 })),
    group: Type.Optional(Type.String({ maxLength: 200 })),
    ...span,
    confidence: Type.Optional(Type.Number({ exclusiveMinimum: 0, exclusiveMaximum: 1 })),
    parameters: Type.Optional(Type.Record(NAME, Type.String({ maxLength: 1000 }))),
    flowRecords: Type.Optional(
      Type.Array(
        Type.Array(Type.Union([Type.String({ maxLength: 64 }), Type.Number(), Type.Null()]), FLOW_ROW),
        {
          maxItems: MAX_FLOW_ROWS,
          description:
            "packets per flow: [src, dst, proto, sport, dport, packets, bytes, startNs, endNs, dscp, vlan], null where unknown",
        },
      ),
    ),
    flowRecordNotes: Type.Optional(Type.Array(Type.String({ maxLength: 1000 }), { maxItems: 100 })),
  },
  closed,
);

const PACKET_QUESTION = Type.Object(
  {
    digests: Type.Optional(
      Type.Array(Type.String({ maxLength: 64, description: "16 hexadecimal digits" }), {
        minItems: 1,
        maxItems: 100_000,
      }),
    ),
    flows: Type.Optional(Type.Array(Type.String({ maxLength: 200 }), { minItems: 1, maxItems: 1000 })),
    ipid: Type.Optional(Type.String({ maxLength: 10_000 })),
    point: Type.Optional(NAME),
    segment: Type.Optional(Type.String({ maxLength: 64 })),
    ...span,
    slackNs: Type.Optional(Type.Number({ minimum: 0 })),
    group: Type.Optional(Type.String({ maxLength: 200 })),
    top: Type.Optional(Type.Integer({ minimum: 1, maximum: 100_000 })),
    worst: Type.Optional(Type.Integer({ minimum: 0, maximum: 10_000 })),
  },
  closed,
);

/** One question, or several that are answered in order. */
export const PACKET_QUESTIONS = Type.Union([
  PACKET_QUESTION,
  Type.Object({ questions: Type.Array(PACKET_QUESTION, { minItems: 1, maxItems: 1000 }) }, closed),
]);

export const PATH_QUESTION = Type.Object(
  {
    path: Type.Array(NAME, { minItems: 2, maxItems: 64 }),
    estimator: Type.Optional(NAME),
    ...span,
  },
  closed,
);

export type SegmentQuestion = Static<typeof SEGMENT_QUESTION>;
export type PacketsQuestion = Static<typeof PACKET_QUESTION>;
export type PathQuestion = Static<typeof PATH_QUESTION>;

/** Selects the packet records of a question. */
export interface PacketRecordsQuestion {
  point?: string | undefined;
  segment?: string | undefined;
  from?: string | undefined;
  to?: string | undefined;
}

export type ArchiveQuestion =
  | { kind: "segment"; question: SegmentQuestion }
  | { kind: "packets"; question: PacketsQuestion }
  | { kind: "packet-batch"; questions: PacketsQuestion[] }
  | { kind: "packet-settings"; question: PacketRecordsQuestion }
  | { kind: "packet-wire"; point?: string | undefined; segment?: string | undefined; message: Uint8Array }
  | { kind: "path"; question: PathQuestion };

export type AnswerPiece = string | Uint8Array;

/** Where the records are: in a directory and, if configured, in an object store behind it. */
export interface AskedArchive {
  directory: string;
  objects: ObjectPlace | null;
}

/** One per thread, so that what one question read is cached for the next. */
let opened: { place: string; storage: ObjectStorage } | null = null;

function storageOf(place: ObjectPlace): ObjectStorage {
  const name = JSON.stringify(place);
  if (opened?.place !== name) {
    opened?.storage.close();
    opened = { place: name, storage: new ObjectStorage(place) };
  }
  return opened.storage;
}

/** One per thread: instantiating the kernels takes longer than most questions. */
let kernels: Kernels | null = null;

/**
 * Yields the answer: JSON text; for several questions one line each; bytes if the question was bytes. Throws UsageError if the question is invalid.
 */
export async function* answerQuestion(
  { directory, objects }: AskedArchive,
  asked: ArchiveQuestion,
): AsyncGenerator<AnswerPiece> {
  kernels ??= new Kernels();
  const storage = objects === null ? FILES : new LayeredStorage(directory, storageOf(objects));
  if (asked.kind === "path") {
    const { path, estimator, from, to } = asked.question;
    const { localisation, originNs } = localiseRecords({
      ...{ directory, storage },
      points: path,
      estimator,
      ...times({ from, to }),
    });
    yield JSON.stringify(absoluteTimes(localisation, originNs));
    return;
  }
  const archive = RecordArchive.open(directory, storage);
  try {
    yield* answerFrom(archive, asked, kernels);
  } finally {
    archive.close();
  }
}

async function* answerFrom(
  archive: RecordArchive,
  asked: Exclude<ArchiveQuestion, { kind: "path" }>,
  shared: Kernels,
): AsyncGenerator<AnswerPiece> {
  const options = { kernels: shared };
  if (asked.kind === "segment") yield JSON.stringify(answerSegment(archive, asked.question, shared));
  else if (asked.kind === "packets")
    yield JSON.stringify(await askPackets(archive, packetQuestion(asked.question), options));
  else if (asked.kind === "packet-batch")
    for (const question of asked.questions) yield await answerLine(archive, question, shared);
  else if (asked.kind === "packet-settings") {
    const { from, to, ...records } = asked.question;
    yield JSON.stringify(packetSettings(archive, { ...records, ...times({ from, to }) }, options));
  } else yield* servePackets(archive, { point: asked.point, segment: asked.segment }, asked.message, options);
}

/** Returns one answer as a line. An error of one question becomes its line and does not affect the others. */
async function answerLine(
  archive: RecordArchive,
  question: PacketsQuestion,
  shared: Kernels,
): Promise<string> {
  try {
    return `${JSON.stringify(await askPackets(archive, packetQuestion(question), { kernels: shared }))}\n`;
  } catch (error) {
    const { status, problem } = problemOf(error);
    if (status === 500) throw error;
    return `${JSON.stringify(problem)}\n`;
  }
}

function answerSegment(archive: RecordArchive, question: SegmentQuestion, shared: Kernels) {
  const { between, from, to, flowRecords, flowRecordNotes, ...rest } = question;
  const [sender = "", receiver = ""] = between;
  return askArchive(
    archive,
    { between: [sender, receiver], ...rest, ...times({ from, to }) },
    { kernels: shared, flowRecords: flowRecords?.map(flowRecordOf), flowRecordNotes: flowRecordNotes ?? [] },
  );
}

function packetQuestion({ digests, flows, ipid, from, to, ...rest }: PacketsQuestion): PacketQuestion {
  const packets: AskedPackets = digests
    ? { by: "digest", digests }
    : flows
      ? { by: "flow", flows, ipids: ipid === undefined ? null : parseIpids(ipid) }
      : { by: "listed" };
  return { packets, ...rest, ...times({ from, to }) };
}

type FlowRow = (string | number | null)[];

export function flowRow({ key, packets, bytes, startNs, endNs }: FlowRecord): FlowRow {
  const { src, dst, proto, sport, dport, dscp = null, vlan = null } = key;
  return [src, dst, proto, sport, dport, packets, bytes, startNs, endNs, dscp, vlan];
}

function flowRecordOf(row: FlowRow): FlowRecord {
  const bad = (i: number) =>
    new UsageError("bad-question", `${row[i]} in place ${i} of a row`, undefined, {
      parameter: "flowRecords",
    });
  const text = (i: number): string | null => {
    const value = row[i] ?? null;
    if (typeof value === "number") throw bad(i);
    return value;
  };
  const number = (i: number): number | null => {
    const value = row[i] ?? null;
    if (typeof value === "string" || (value !== null && value < 0)) throw bad(i);
    return value;
  };
  const packets = number(5);
  if (packets === null) throw bad(5);
  const [dscp, vlan] = [number(9), number(10)];
  return {
    key: {
      ...{ src: text(0), dst: text(1), proto: number(2), sport: number(3), dport: number(4) },
      ...(dscp === null ? {} : { dscp }),
      ...(vlan === null ? {} : { vlan }),
    },
    ...{ packets, bytes: number(6), startNs: number(7), endNs: number(8) },
  };
}

export function times({ from, to }: { from?: string | undefined; to?: string | undefined }): {
  fromNs?: bigint;
  toNs?: bigint;
} {
  return {
    ...(from === undefined ? {} : { fromNs: parseTime(from) }),
    ...(to === undefined ? {} : { toNs: parseTime(to) }),
  };
}
