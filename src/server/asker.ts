/**
 * Questions wait in a short line for the thread that answers them (ask-worker.ts); one that takes too long is ended with its thread, and the next gets a new one. Where the sources run
 * directly there is no program for a thread: then they are answered in place.
 */
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import type { WorkerAnswer, WorkerQuestion } from "./ask-worker.ts";
import { HttpError, type Problem } from "./problem.ts";
import { type ArchiveQuestion, answerQuestion } from "./questions.ts";

export interface AskerOptions {
  directory: string;
  /** Longest time of one question, ms. */
  limitMs: number;
  /** Questions that may wait. */
  maxWaiting: number;
  onError?: (text: string) => void;
}

interface Waiting {
  asked: ArchiveQuestion;
  resolve: (json: string) => void;
  reject: (error: Error) => void;
}

/** What the worker found wrong: a problem with its status. */
export class AskedError extends Error {
  readonly status: number;
  readonly problem: Problem;
  constructor(status: number, problem: Problem) {
    super(problem.message);
    this.status = status;
    this.problem = problem;
  }
}

export class Asker {
  readonly #options: AskerOptions;
  readonly #program: string | null;
  readonly #line: Waiting[] = [];
  #worker: Worker | null = null;
  #current: { id: number; waiting: Waiting; timer: NodeJS.Timeout } | null = null;
  #next = 1;
  #closed = false;

  constructor(options: AskerOptions) {
    this.#options = options;
    const file = fileURLToPath(new URL("./ask-worker.js", import.meta.url));
    this.#program = existsSync(file) ? file : null;
  }

  ask(asked: ArchiveQuestion): Promise<string> {
    if (this.#program === null) return answerQuestion(this.#options.directory, asked);
    if (this.#line.length >= this.#options.maxWaiting)
      return Promise.reject(new HttpError(503, "busy", "too many questions wait: ask again later", 1));
    return new Promise((resolve, reject) => {
      this.#line.push({ asked, resolve, reject });
      this.#advance();
    });
  }

  async close(): Promise<void> {
    this.#closed = true;
    const gone = new HttpError(503, "closing", "the collector is stopping", 5);
    for (const { reject } of this.#line.splice(0)) reject(gone);
    this.#current?.waiting.reject(gone);
    if (this.#current) clearTimeout(this.#current.timer);
    await this.#worker?.terminate();
  }

  #advance(): void {
    if (this.#current || this.#closed) return;
    const waiting = this.#line.shift();
    if (!waiting) return;
    this.#worker ??= this.#start();
    const id = this.#next++;
    const timer = setTimeout(() => {
      const seconds = this.#options.limitMs / 1000;
      this.#end(
        new HttpError(
          422,
          "too-long",
          `the question takes longer than ${seconds} s: ask about less time, or fewer flows`,
        ),
      );
    }, this.#options.limitMs);
    this.#current = { id, waiting, timer };
    const question: WorkerQuestion = { id, asked: waiting.asked };
    this.#worker.postMessage(question);
  }

  #start(): Worker {
    const worker = new Worker(this.#program ?? "", { workerData: { directory: this.#options.directory } });
    worker.on("message", (answer: WorkerAnswer) => {
      const current = this.#current;
      if (!current || current.id !== answer.id) return;
      clearTimeout(current.timer);
      this.#current = null;
      if ("json" in answer) current.waiting.resolve(answer.json);
      else {
        if (answer.stack !== undefined) this.#options.onError?.(answer.stack);
        current.waiting.reject(new AskedError(answer.status, answer.problem));
      }
      this.#advance();
    });
    worker.on("error", (error) => {
      if (this.#worker !== worker) return;
      this.#options.onError?.(error.stack ?? String(error));
      this.#end(
        new HttpError(
          500,
          "internal",
          "the question could not be answered; the collector's log has the details",
        ),
      );
    });
    return worker;
  }

  /** The thread is given up, with its question. */
  #end(error: Error): void {
    const [worker, current] = [this.#worker, this.#current];
    this.#worker = null;
    this.#current = null;
    void worker?.terminate();
    if (current) {
      clearTimeout(current.timer);
      current.waiting.reject(error);
    }
    this.#advance();
  }
}
