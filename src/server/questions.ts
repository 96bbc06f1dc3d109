/** Questions that records answer, as data: they cross threads and the network. Each is one call of the library on the archive. */
import Type, { type Static } from "typebox";
import { RecordArchive } from "../archive/archive.ts";
import { Kernels } from "../base/kernels.ts";
import { parseTime } from "../base/time.ts";
import { absoluteTimes } from "../network/localise/from-captures.ts";
import { localiseRecords } from "../network/localise/from-records.ts";
import { askPackets } from "../query/packet/ask.ts";
import { type AskedPackets, parseIpids } from "../query/packet/question.ts";
import { askArchive } from "../query/segment/ask.ts";

const NAME = Type.String({ minLength: 1, maxLength: 64 });
/** As the command line takes it: ns, seconds with a point, or ISO 8601. */
const TIME = Type.String({ minLength: 1, maxLength: 40 });
const span = { from: Type.Optional(TIME), to: Type.Optional(TIME) };
const closed = { additionalProperties: false };

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
  },
  closed,
);

export const PACKET_QUESTION = Type.Object(
  {
    digests: Type.Optional(
      Type.Array(Type.String({ minLength: 16, maxLength: 16 }), { minItems: 1, maxItems: 100_000 }),
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

export type ArchiveQuestion =
  | { kind: "segment"; question: SegmentQuestion }
  | { kind: "packets"; question: PacketsQuestion }
  | { kind: "path"; question: PathQuestion };

/** One per thread that asks: making them takes longer than most questions. */
let kernels: Kernels | null = null;

/** The answer as JSON text. UsageError where the question is wrong. */
export async function answerQuestion(directory: string, asked: ArchiveQuestion): Promise<string> {
  kernels ??= new Kernels();
  if (asked.kind === "path") {
    const { path, estimator, from, to } = asked.question;
    const { localisation, originNs } = localiseRecords({
      directory,
      points: path,
      estimator,
      ...times({ from, to }),
    });
    return JSON.stringify(absoluteTimes(localisation, originNs));
  }
  const archive = RecordArchive.open(directory);
  try {
    if (asked.kind === "segment") {
      const { between, from, to, ...rest } = asked.question;
      const [sender = "", receiver = ""] = between;
      return JSON.stringify(
        askArchive(archive, { between: [sender, receiver], ...rest, ...times({ from, to }) }, { kernels }),
      );
    }
    const { digests, flows, ipid, from, to, ...rest } = asked.question;
    const packets: AskedPackets = digests
      ? { by: "digest", digests }
      : flows
        ? { by: "flow", flows, ipids: ipid === undefined ? null : parseIpids(ipid) }
        : { by: "listed" };
    return JSON.stringify(
      await askPackets(archive, { packets, ...rest, ...times({ from, to }) }, { kernels }),
    );
  } finally {
    archive.close();
  }
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
