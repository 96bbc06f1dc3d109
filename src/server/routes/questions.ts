/** Questions that the records answer, in a thread of their own. */
import type { TSchema } from "typebox";
import { type ArchiveQuestion, PACKET_QUESTION, PATH_QUESTION, SEGMENT_QUESTION } from "../questions.ts";
import type { Parts, Route } from "./route.ts";

const QUESTIONS: readonly {
  kind: ArchiveQuestion["kind"];
  path: string;
  summary: string;
  body: TSchema;
  answer: string;
}[] = [
  {
    kind: "segment",
    path: "/v1/query",
    summary: "delay and loss between two points, from their records: the question of hoptime query",
    body: SEGMENT_QUESTION,
    answer: "format hoptime.answer/1",
  },
  {
    kind: "packets",
    path: "/v1/packets",
    summary: "delays of single packets, from records of maple: by digest, by flow, or of all flows listed",
    body: PACKET_QUESTION,
    answer: "format hoptime.packet-answer/1",
  },
  {
    kind: "path",
    path: "/v1/localise",
    summary: "which segment of a path is to blame, from records: the question of hoptime localise",
    body: PATH_QUESTION,
    answer: "format hoptime.localise/1",
  },
];

export function questionRoutes({ service }: Parts): Route[] {
  return QUESTIONS.map(({ kind, ...route }) => ({
    ...route,
    method: "POST",
    needs: "read",
    handle: async ({ body: question }) => ({
      jsonText: await service.ask({ kind, question } as ArchiveQuestion),
    }),
  }));
}
