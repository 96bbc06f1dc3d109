/**
 * A feed that reads and decodes in a thread of its own while this one matches: the same strides as a DirectFeed, so the same report to the byte. The thread is
 * started before it is needed (while the first packets are read) and serves one feed after another.
 *
 * This thread blocks while it waits, as it does when it reads a file itself, but returns to the event loop now and then, to notice a thread that died.
 */
import type { Worker } from "node:worker_threads";
import { FormatError, UsageError } from "../base/errors.ts";
import type { Kernels } from "../base/kernels.ts";
import { DEFAULT_COVER, DEFAULT_SEED } from "../capture/reader.ts";
import type { RingReader } from "./feed-ring.ts";
import { type ReadingThread, startReading } from "./feed-thread.ts";
import type { FeedEnd, FeedMessage, FeedOrder, SentError } from "./feed-worker.ts";
import type { FeedHead, FeedPlan, FeedTail, PairFeed, Stride } from "./pair-feed.ts";

const WAIT_MS = 20;

/** One turn of the event loop. */
const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

export class FeedThread {
  /** The kernels that contain its strides: others cannot read them. */
  readonly kernels: Kernels;
  readonly #worker: Worker;
  readonly #ring: RingReader;
  readonly #messages: FeedMessage[] = [];
  #heard: (() => void) | null = null;
  #failure: Error | null = null;

  private constructor({ worker, kernels, ring }: ReadingThread) {
    this.kernels = kernels;
    this.#worker = worker;
    this.#ring = ring;
    const wake = () => this.#heard?.();
    worker.on("message", (message: FeedMessage) => {
      if (message.kind === "up") return;
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

  /** Returns null if the thread's program is not available. */
  static start(): FeedThread | null {
    const thread = startReading();
    return thread && new FeedThread(thread);
  }

  /** Starts a feed; the previous one must be finished. `filter` is the text of the plan's filter. */
  async open(plan: FeedPlan, filter: string | undefined): Promise<PairFeed> {
    this.#ring.reset();
    const { cover, inner, nat, key, seed } = plan.capture;
    const order: FeedOrder = {
      before: plan.before,
      after: plan.after,
      capture: {
        cover: cover ?? DEFAULT_COVER,
        inner: inner ?? false,
        nat: nat ?? false,
        key: key?.text,
        seed: seed ?? DEFAULT_SEED,
      },
      filter,
      alignNs: plan.alignNs,
      leadNs: plan.leadNs,
      windowNs: plan.windowNs,
      wantsSpan: plan.wantsSpan ?? false,
    };
    this.#worker.ref();
    this.#worker.postMessage(order);
    const message = await this.#message();
    if (message.kind !== "head") throw revive(message);
    return new ParallelFeed(this.kernels, message.head, this.#ring, {
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

  /** Lets the thread end by itself, in parallel to this one: Node 20 can abort if a thread is terminated while the engine still compiles for it. */
  close(): void {
    this.#worker.removeAllListeners();
    this.#worker.unref();
    this.#ring.cancel();
    const end: FeedEnd = "end";
    this.#worker.postMessage(end);
  }
}

interface Thread {
  /** Returns to the event loop once; throws an error of the thread. */
  listen(): Promise<void>;
  /** Returns the thread's last message, sent when it no longer uses the ring. */
  end(): Promise<Extract<FeedMessage, { kind: "tail" | "cancelled" }>>;
}

class ParallelFeed implements PairFeed {
  readonly head: FeedHead;
  readonly #kernels: Kernels;
  readonly #ring: RingReader;
  readonly #thread: Thread;
  /** The slot of the last stride is still in use. */
  #holds = false;

  constructor(kernels: Kernels, head: FeedHead, ring: RingReader, thread: Thread) {
    this.#kernels = kernels;
    this.head = head;
    this.#ring = ring;
    this.#thread = thread;
  }

  next(idle?: () => boolean): Stride | null | Promise<Stride | null> {
    if (this.#holds) this.#ring.release(this.#kernels.call.statsTop());
    this.#holds = false;
    return this.#ring.ready ? this.#take() : this.#wait(idle);
  }

  async #wait(idle?: () => boolean): Promise<Stride | null> {
    while (!this.#ring.ready) {
      if (this.#ring.ended) return null;
      if (idle?.()) continue;
      this.#ring.wait(WAIT_MS);
      if (!this.#ring.ready) await this.#thread.listen();
    }
    return this.#take();
  }

  #take(): Stride {
    this.#holds = true;
    return this.#ring.read();
  }

  progress(): { doneBytes: number; packets: number } {
    return this.#ring.progress();
  }

  async cancel(): Promise<void> {
    this.#ring.cancel();
    await this.#thread.end();
  }

  async finish(): Promise<FeedTail> {
    const last = await this.#thread.end();
    if (last.kind !== "tail") throw revive(last);
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
