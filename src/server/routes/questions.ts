/** Questions answered from records, in a thread of their own. */
import type { TSchema } from "typebox";
import { type ArchiveQuestion, MAX_QUESTION_BYTES, PATH_QUESTION, SEGMENT_QUESTION } from "../questions.ts";
import type { Parts, Route } from "./route.ts";

const QUESTIONS: readonly {
  kind: ArchiveQuestion["kind"];
  path: string;
  summary: string;
  body: TSchema;
  answer: string;
  maxJsonBytes?: number;
}[] = [
  {
    kind: "segment",
    path: "/v1/query",
    summary: "delay and loss between two points, from their records: the question of hoptime query",
    body: SEGMENT_QUESTION,
    answer: "format hoptime.answer/1",
    maxJsonBytes: MAX_QUESTION_BYTES,
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
    handle: async ({ body: question, client: { name }, signal }) => ({
      jsonText: await service.ask({ kind, question } as ArchiveQuestion, { name, signal }),
    }),
  }));
}
