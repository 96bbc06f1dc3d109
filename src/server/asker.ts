/**
 * Queues questions for the thread that answers them (ask-worker.ts). Each client has a short queue, and the queues are served in turn, so one
 * client cannot block the others. A question over the time limit is ended by terminating its thread; the next question starts a new one. Answers
 * come in pieces. When the program runs from source there is no compiled worker, and questions are answered in this thread.
 */
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import { endingFlags, endThread } from "../base/ending.ts";
import type { AskWorkerData, WorkerAnswer, WorkerQuestion } from "./ask-worker.ts";
import { AnsweringBudget, type AnsweringLimits } from "./limits.ts";
import { HttpError, type Problem } from "./problem.ts";
import { type AnswerPiece, type ArchiveQuestion, type AskedArchive, answerQuestion } from "./questions.ts";

export interface AskerOptions {
  archive: AskedArchive;
  /** Time limit of one question, ms. */
  limitMs: number;
  /** Most questions that may wait: in total, and per client. */
  maxWaiting: number;
  maxOfClient: number;
  answering?: AnsweringLimits | undefined;
  onError?: (text: string) => void;
}

/** Upper bound on the answer pieces that clients have not read yet, over all answers. */
const MAX_HELD_BYTES = 256 << 20;

/** The client of a question. If it disconnects, a question still waiting is dropped. */
export interface AskingClient {
  name: string;
  signal?: AbortSignal | undefined;
}

/** An error reported by the worker thread: a problem with its HTTP status. */
export class AskedError extends Error {
  readonly status: number;
  readonly problem: Problem;
  constructor(status: number, problem: Problem) {
    super(problem.message);
    this.status = status;
    this.problem = problem;
  }
}

/** The pieces of one answer. They are buffered until the client reads them. */
class Answer implements AsyncIterable<AnswerPiece> {
  readonly client: string;
  readonly asked: ArchiveQuestion;
  readonly #pieces: AnswerPiece[] = [];
  #end: { error: Error | null } | null = null;
  #wake: (() => void) | null = null;
  heldBytes = 0;

  constructor(client: string, asked: ArchiveQuestion) {
    this.client = client;
    this.asked = asked;
  }

  add(piece: AnswerPiece): void {
    this.#pieces.push(piece);
    this.heldBytes += piece.length;
    this.#wake?.();
  }

  end(error: Error | null): void {
    this.#end ??= { error };
    this.#wake?.();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<AnswerPiece> {
    try {
      for (;;) {
        const piece = this.#pieces.shift();
        if (piece !== undefined) {
          this.heldBytes -= piece.length;
          yield piece;
        } else if (this.#end?.error) throw this.#end.error;
        else if (this.#end) return;
        else
          await new Promise<void>((resolve) => {
            this.#wake = resolve;
          });
      }
    } finally {
      // The client reads no further.
      this.#pieces.length = 0;
      this.heldBytes = 0;
    }
  }
}

export class Asker {
  readonly #options: AskerOptions;
  readonly #budget: AnsweringBudget;
  readonly #program: string | null;
  /** Waiting answers by client, in the order in which clients are served. */
  readonly #lines = new Map<string, Answer[]>();
  readonly #held = new Set<Answer>();
  #worker: Worker | null = null;
  #ending = endingFlags();
  #current: { id: number; answer: Answer; timer: NodeJS.Timeout; sinceMs: number } | null = null;
  #next = 1;
  #closed = false;

  constructor(options: AskerOptions) {
    this.#options = options;
    this.#budget = new AnsweringBudget(options.answering);
    const file = fileURLToPath(new URL("./ask-worker.js", import.meta.url));
    this.#program = existsSync(file) ? file : null;
  }

  /** Returns the whole answer of a text question. */
  async ask(asked: ArchiveQuestion, client: AskingClient): Promise<string> {
    let text = "";
    for await (const piece of this.#pieces(asked, client)) text += piece as string;
    return text;
  }

  /** Returns the pieces of an answer. Rejects before the first piece if there is no answer. */
  async stream(asked: ArchiveQuestion, client: AskingClient): Promise<AsyncIterable<AnswerPiece>> {
    const pieces = this.#pieces(asked, client)[Symbol.asyncIterator]();
    const first = await pieces.next();
    return (async function* () {
      try {
        for (let piece = first; !piece.done; piece = await pieces.next()) yield piece.value;
      } finally {
        await pieces.return?.(undefined);
      }
    })();
  }

  async close(): Promise<void> {
    this.#closed = true;
    const gone = new HttpError(503, "closing", "the collector is stopping", 5);
    for (const line of this.#lines.values()) for (const answer of line) answer.end(gone);
    this.#lines.clear();
    this.#current?.answer.end(gone);
    if (this.#current) clearTimeout(this.#current.timer);
    await endThread(this.#worker, this.#ending);
  }

  #pieces(asked: ArchiveQuestion, { name: client, signal }: AskingClient): AsyncIterable<AnswerPiece> {
    this.#budget.check(client);
    if (this.#program === null) return this.#inPlace(asked, client);
    const line = this.#lines.get(client) ?? [];
    let waiting = 0;
    for (const other of this.#lines.values()) waiting += other.length;
    if (line.length >= this.#options.maxOfClient || waiting >= this.#options.maxWaiting)
      throw new HttpError(503, "busy", "too many questions are waiting: ask again later", 1);
    for (const answer of this.#held)
      if (answer.heldBytes === 0 && answer !== this.#current?.answer) this.#held.delete(answer);
    const answer = new Answer(client, asked);
    this.#lines.set(client, [...line, answer]);
    signal?.addEventListener("abort", () => this.#forget(answer));
    this.#advance();
    return answer;
  }

  /** Drops the question of a client that has disconnected. A question already being answered runs to its end. */
  #forget(answer: Answer): void {
    const left = (this.#lines.get(answer.client) ?? []).filter((a) => a !== answer);
    if (left.length > 0) this.#lines.set(answer.client, left);
    else this.#lines.delete(answer.client);
    answer.end(new HttpError(499, "gone", "the client disconnected"));
  }

  async *#inPlace(asked: ArchiveQuestion, client: string): AsyncGenerator<AnswerPiece> {
    const sinceMs = performance.now();
    try {
      yield* answerQuestion(this.#options.archive, asked);
    } finally {
      this.#budget.spend(client, performance.now() - sinceMs);
    }
  }

  #advance(): void {
    if (this.#current || this.#closed) return;
    const [next] = this.#lines;
    if (!next) return;
    const [client, [answer, ...rest]] = next;
    // The client goes to the end of the queue.
    this.#lines.delete(client);
    if (rest.length > 0) this.#lines.set(client, rest);
    if (!answer) return;
    this.#worker ??= this.#start();
    const id = this.#next++;
    const timer = setTimeout(() => {
      const seconds = this.#options.limitMs / 1000;
      const text = `the question takes longer than ${seconds} s: ask about less time, or fewer flows`;
      this.#giveUp(new HttpError(422, "too-long", text));
    }, this.#options.limitMs);
    this.#current = { id, answer, timer, sinceMs: performance.now() };
    this.#held.add(answer);
    const question: WorkerQuestion = { id, asked: answer.asked };
    this.#worker.postMessage(question);
  }

  #start(): Worker {
    this.#ending = endingFlags();
    const workerData: AskWorkerData = { ...this.#options.archive, ending: this.#ending };
    const worker = new Worker(this.#program ?? "", { workerData });
    worker.on("message", (message: WorkerAnswer) => this.#take(message));
    worker.on("error", (error) => {
      if (this.#worker !== worker) return;
      this.#options.onError?.(error.stack ?? String(error));
      const text = "the question could not be answered; the collector's log has the details";
      this.#giveUp(new HttpError(500, "internal", text));
    });
    return worker;
  }

  #take(message: WorkerAnswer): void {
    const current = this.#current;
    if (!current || current.id !== message.id) return;
    if ("piece" in message) {
      current.answer.add(message.piece);
      let held = 0;
      for (const answer of this.#held) held += answer.heldBytes;
      if (held > MAX_HELD_BYTES)
        this.#giveUp(new HttpError(503, "busy", "too much is being answered at once: ask again later", 5));
      return;
    }
    if ("done" in message) this.#finish(null);
    else {
      if (message.stack !== undefined) this.#options.onError?.(message.stack);
      this.#finish(new AskedError(message.status, message.problem));
    }
  }

  /** Terminates the thread together with its current question. */
  #giveUp(error: Error): void {
    const worker = this.#worker;
    this.#worker = null;
    void endThread(worker, this.#ending);
    this.#finish(error);
  }

  #finish(error: Error | null): void {
    const current = this.#current;
    this.#current = null;
    if (current) {
      clearTimeout(current.timer);
      this.#budget.spend(current.answer.client, performance.now() - current.sinceMs);
      current.answer.end(error);
    }
    this.#advance();
  }
}
