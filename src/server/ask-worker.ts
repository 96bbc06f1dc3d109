/**
 * The thread that answers questions from records, one at a time. Reading and estimating are CPU-heavy; in a thread of their own they do not stop
 * the collector from taking records.
 */
import { parentPort, workerData } from "node:worker_threads";
import { mayBeEnded } from "../base/ending.ts";
import { type Problem, problemOf } from "./problem.ts";
import { type AnswerPiece, type ArchiveQuestion, type AskedArchive, answerQuestion } from "./questions.ts";

export interface AskWorkerData extends AskedArchive {
  /** The flags of base/ending.ts. */
  ending: Int32Array;
}

export interface WorkerQuestion {
  id: number;
  asked: ArchiveQuestion;
}

export type WorkerAnswer = { id: number } & (
  | { piece: AnswerPiece }
  | { done: true }
  | { status: number; problem: Problem; stack?: string }
);

const { ending, ...archive } = workerData as AskWorkerData;
if (parentPort) mayBeEnded(ending);
parentPort?.on("message", async ({ id, asked }: WorkerQuestion) => {
  let end: WorkerAnswer = { id, done: true };
  try {
    for await (const piece of answerQuestion(archive, asked))
      parentPort?.postMessage({ id, piece } satisfies WorkerAnswer);
  } catch (error) {
    const problem = problemOf(error);
    end = {
      id,
      ...problem,
      ...(problem.status === 500 ? { stack: (error as Error).stack ?? String(error) } : {}),
    };
  }
  parentPort?.postMessage(end);
});
