/**
 * Questions about single packets over HTTP (MAPLE, section 5): JSON for one or many, and the wire format for thousands
 * (docs/formats/packet-question.md).
 */
import Type from "typebox";
import { framePiece, PIECE } from "../../query/packet/captured-wire.ts";
import { AskedError } from "../asker.ts";
import { problemOf } from "../problem.ts";
import { type AnswerPiece, PACKET_QUESTIONS, type PacketsQuestion } from "../questions.ts";
import type { CollectorService } from "../service.ts";
import { PACKET_QUESTION_TYPE } from "../wire.ts";
import type { Parts, Route, RouteInput, RouteOutput } from "./route.ts";

const PACKET_ANSWER_TYPE = "application/vnd.hoptime.packet-answer";

const RECORDS = {
  point: Type.Optional(
    Type.String({ minLength: 1, maxLength: 64, description: "whose records, where there are several" }),
  ),
  segment: Type.Optional(Type.String({ maxLength: 64, description: "label of the records" })),
};
const TIME = Type.Optional(Type.String({ minLength: 1, maxLength: 40, description: "rough time: from, to" }));
const closed = { additionalProperties: false };

export function packetRoutes({ service }: Parts): Route[] {
  return [
    {
      method: "POST",
      path: "/v1/packets",
      needs: "read",
      summary:
        "delays of single packets, from records of maple: by digest, by flow, or of all flows listed; several as {questions: […]}, or in the wire form of docs/formats/packet-question.md",
      query: Type.Object(RECORDS, closed),
      body: PACKET_QUESTIONS,
      bodyType: PACKET_QUESTION_TYPE,
      answer:
        "format hoptime.packet-answer/1; of several questions a line for each, as they are answered; of the wire form its pieces",
      handle: (input) => answerPackets(service, input),
    },
    {
      method: "GET",
      path: "/v1/packets/settings",
      needs: "read",
      summary: "how packets have to be read to be found in the records: key, cover, seed, identity",
      query: Type.Object({ ...RECORDS, from: TIME, to: TIME }, closed),
      answer: "format hoptime.packet-settings/1",
      handle: async ({ query, client, signal }) => ({
        jsonText: await service.ask(
          { kind: "packet-settings", question: query },
          { name: client.name, signal },
        ),
      }),
    },
  ];
}

async function answerPackets(
  service: CollectorService,
  { body, query, client, signal }: RouteInput,
): Promise<RouteOutput> {
  const by = { name: client.name, signal };
  if (body instanceof Uint8Array) {
    const { point, segment } = query as { point?: string; segment?: string };
    const pieces = await service.stream({ kind: "packet-wire", point, segment, message: body }, by);
    return {
      type: PACKET_ANSWER_TYPE,
      stream: ended(pieces, (problem) => framePiece(PIECE.problem, new TextEncoder().encode(problem))),
    };
  }
  const asked = body as PacketsQuestion | { questions: PacketsQuestion[] };
  if (!("questions" in asked))
    return { jsonText: await service.ask({ kind: "packets", question: asked }, by) };
  const lines = await service.stream({ kind: "packet-batch", questions: asked.questions }, by);
  return { type: "application/x-ndjson", stream: ended(lines, (problem) => `${problem}\n`) };
}

/** An error after the answer has begun becomes its last piece. */
async function* ended(
  pieces: AsyncIterable<AnswerPiece>,
  last: (problem: string) => AnswerPiece,
): AsyncGenerator<AnswerPiece> {
  try {
    yield* pieces;
  } catch (error) {
    const { problem } = error instanceof AskedError ? error : problemOf(error);
    yield last(JSON.stringify(problem));
  }
}
