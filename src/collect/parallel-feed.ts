/**
 * A feed that reads and decodes in a thread of its own while this one matches: the same strides as a DirectFeed, so the same
 * report to the byte. The thread is started before it is needed (while the first packets are looked at) and serves one feed after another.
 *
 * This thread blocks while it waits, as it does when it reads a file itself, but comes back to the event loop now and then, where a thread
 * that died is heard of.
 */
import { existsSync, statSync } from "node:fs";
import { availableParallelism } from "node:os";
import { setImmediate as turn } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { SHARE_ENV, Worker } from "node:worker_threads";
import { FormatError, UsageError } from "../base/errors.ts";
import { Kernels } from "../base/kernels.ts";
import { PacketBatch } from "../capture/batch.ts";
import { KeyRuns } from "../capture/key-runs.ts";
import { DEFAULT_COVER, DEFAULT_SEED } from "../capture/reader.ts";
import { FeedRing } from "./feed-ring.ts";
import type { FeedMessage, FeedOrder, FeedWorkerData, SentError } from "./feed-worker.ts";
import {
  type FeedHead,
  type FeedPlan,
  type FeedTail,
  type PairFeed,
  STRIDE_ROWS,
  type Stride,
} from "./pair-feed.ts";

/** Below this size of both files together a thread costs more than it saves. */
const LEAST_BYTES = 16 << 20;
const WAIT_MS = 20;

/** The thread's program: beside us in the built package; where the sources run directly there is none that Node could run. */
function program(): string | null {
  const file = fileURLToPath(new URL("./feed-worker.js", import.meta.url));
  return existsSync(file) ? file : null;
}

/** Whether a second thread pays: the captures are files, large ones, and there is a processor for it. */
export function worthParallel(...captures: string[]): boolean {
  if (availableParallelism() < 2 || program() === null) return false;
  let bytes = 0;
  for (const path of captures) {
    const stat = path === "-" ? undefined : statSync(path, { throwIfNoEntry: false });
    if (!stat?.isFile()) return false;
    bytes += stat.size;
  }
  return bytes >= LEAST_BYTES;
}

export class FeedThread {
  static #early: FeedThread | null = null;
  readonly #worker: Worker;
  readonly #ring: FeedRing;
  readonly #messages: FeedMessage[] = [];
  #heard: (() => void) | null = null;
  #failure: Error | null = null;

  private constructor(worker: Worker, ring: FeedRing) {
    this.#worker = worker;
    this.#ring = ring;
    const wake = () => this.#heard?.();
    worker.on("message", (message: FeedMessage) => {
      this.#messages.push(message);
      wake();
    });
    worker.on("error", (error) => {
      this.#failure = error as Error;
      wake();
    });
    worker.on("exit", (code) => {
      this.#failure ??= new Error(`the reading thread ended early (code ${code})`);
      wake();
    });
    worker.unref();
  }

  /** Starts the thread for the next `start`: it comes up while the caller loads what else it needs. */
  static early(): void {
    FeedThread.#early ??= FeedThread.start();
  }

  /** Null where the thread's program is not at hand. */
  static start(): FeedThread | null {
    const early = FeedThread.#early;
    FeedThread.#early = null;
    if (early) return early;
    const file = program();
    if (file === null) return null;
    const ring = new FeedRing(STRIDE_ROWS);
    const data: FeedWorkerData = { module: Kernels.module, rows: ring.rows, ring: ring.buffer };
    return new FeedThread(
      new Worker(file, { workerData: data, env: SHARE_ENV, trackUnmanagedFds: false }),
      ring,
    );
  }

  /** Starts a feed; the one before must have been finished. `filter` is the text of the plan's filter. */
  async open(kernels: Kernels, plan: FeedPlan, filter: string | undefined): Promise<PairFeed> {
    this.#ring.reset();
    const { cover, inner, key, seed } = plan.capture;
    const order: FeedOrder = {
      before: plan.before,
      after: plan.after,
      capture: {
        cover: cover ?? DEFAULT_COVER,
        inner: inner ?? false,
        key: key?.text,
        seed: seed ?? DEFAULT_SEED,
      },
      filter,
      alignNs: plan.alignNs,
      leadNs: plan.leadNs,
      windowNs: plan.windowNs,
    };
    this.#worker.ref();
    this.#worker.postMessage(order);
    const message = await this.#message();
    if (message.kind !== "head") throw revive(message);
    return new ParallelFeed(kernels, message.head, this.#ring, {
      listen: async () => {
        await turn();
        const failed = this.#messages.find((m) => m.kind === "error");
        if (failed) throw revive(failed);
        if (this.#failure) throw this.#failure;
      },
      end: async () => {
        const last = await this.#message();
        this.#worker.unref();
        if (last.kind !== "tail" && last.kind !== "cancelled") throw revive(last);
        return last;
      },
    });
  }

  async #message(): Promise<FeedMessage> {
    for (;;) {
      const message = this.#messages.shift();
      if (message) return message;
      if (this.#failure) throw this.#failure;
      await new Promise<void>((resolve) => {
        this.#heard = resolve;
      });
      this.#heard = null;
    }
  }

  /** Ends the thread, which takes its time beside us. */
  close(): void {
    this.#worker.removeAllListeners();
    void this.#worker.terminate();
  }
}

interface Thread {
  /** Back to the event loop once; throws what went wrong in the thread. */
  listen(): Promise<void>;
  /** What it says when it has left the ring alone. */
  end(): Promise<Extract<FeedMessage, { kind: "tail" | "cancelled" }>>;
}

class ParallelFeed implements PairFeed {
  readonly head: FeedHead;
  readonly #kernels: Kernels;
  readonly #ring: FeedRing;
  readonly #thread: Thread;
  readonly #batch: PacketBatch;
  readonly #runs: KeyRuns;

  constructor(kernels: Kernels, head: FeedHead, ring: FeedRing, thread: Thread) {
    this.#kernels = kernels;
    this.head = head;
    this.#ring = ring;
    this.#thread = thread;
    this.#batch = new PacketBatch(kernels, head.rows);
    this.#runs = new KeyRuns(kernels, head.rows);
  }

  next(): Stride | null | Promise<Stride | null> {
    return this.#ring.ready ? this.#take() : this.#wait();
  }

  async #wait(): Promise<Stride | null> {
    while (!this.#ring.ready) {
      if (this.#ring.ended) return null;
      this.#ring.wait(WAIT_MS);
      if (!this.#ring.ready) await this.#thread.listen();
    }
    return this.#take();
  }

  #take(): Stride {
    const content = this.#ring.read(this.#kernels, this.#batch, this.#runs);
    this.#ring.release();
    if (content.kind === "end") return content;
    const { side, rows, shorts } = content;
    return { kind: "rows", side, batch: this.#batch, runs: this.#runs, from: 0, to: rows, shorts };
  }

  progress(): { doneBytes: number; packets: number } {
    return this.#ring.progress();
  }

  async cancel(): Promise<void> {
    this.#ring.cancel();
    await this.#thread.end();
    this.#batch.free();
    this.#runs.free();
  }

  async finish(): Promise<FeedTail> {
    const last = await this.#thread.end();
    if (last.kind !== "tail") throw revive(last);
    this.#batch.free();
    this.#runs.free();
    return last.tail;
  }
}

function revive(message: FeedMessage): Error {
  if (message.kind !== "error") return new Error(`the reading thread sent '${message.kind}' out of turn`);
  const error: SentError = message.error;
  if (error.name === "UsageError") return new UsageError(error.code, error.message, error.hint);
  if (error.name === "FormatError") {
    // The message already begins with file and offset.
    const prefix = `${error.file}: at byte ${error.offset}: `;
    return new FormatError(error.code, error.file, error.offset, error.message.slice(prefix.length));
  }
  return new Error(error.message);
}
