/**
 * The thread behind parallel-feed.ts: reads and decodes both captures and writes the strides to the ring, one order at a time. Head, tail and errors, too large
 * or too rare for the ring, are sent as messages.
 */
import { parentPort } from "node:worker_threads";
import { FormatError, UsageError } from "../base/errors.ts";
import { type KernelMemory, Kernels } from "../base/kernels.ts";
import { compileFilter } from "../capture/filter/filter.ts";
import { FlowKeySpec } from "../capture/flow/flow-key.ts";
import { RingCancelled, RingWriter, ringBytes } from "./feed-ring.ts";
import { DirectFeed, type FeedHead, type FeedTail } from "./pair-feed.ts";

/** The first message: the memory of the other thread's kernels, and the address of the ring in it. */
export interface FeedStart {
  memory: KernelMemory;
  ring: number;
  rows: number;
}

/** A FeedPlan in a form that can be sent. */
export interface FeedOrder {
  before: string;
  after: string;
  capture: { cover: number; inner: boolean; nat: boolean; key: string | undefined; seed: bigint };
  filter: string | undefined;
  alignNs: number;
  leadNs: number;
  windowNs: number;
  wantsSpan: boolean;
}

/** The last message: no more orders will come. */
export type FeedEnd = "end";

/** An error in a form that can be sent. */
export type SentError =
  | { name: "UsageError"; code: UsageError["code"]; message: string; hint: string | undefined }
  | { name: "FormatError"; code: FormatError["code"]; file: string; offset: number; message: string }
  | { name: "Error"; message: string };

/** "up": its program is loaded. */
export type FeedMessage =
  | { kind: "up" }
  | { kind: "head"; head: FeedHead }
  | { kind: "tail"; tail: FeedTail }
  | { kind: "cancelled" }
  | { kind: "error"; error: SentError };

/** Number of strides between two progress updates. */
const PROGRESS_EVERY = 64;

async function serve(order: FeedOrder, ring: RingWriter, post: (m: FeedMessage) => void) {
  const kernels = new Kernels();
  const filter = order.filter === undefined ? undefined : compileFilter(order.filter, kernels);
  const feed = await DirectFeed.open(kernels, {
    before: order.before,
    after: order.after,
    capture: {
      cover: order.capture.cover,
      inner: order.capture.inner,
      nat: order.capture.nat,
      seed: order.capture.seed,
      key: FlowKeySpec.parse(order.capture.key),
      filter,
    },
    alignNs: order.alignNs,
    leadNs: order.leadNs,
    windowNs: order.windowNs,
    wantsSpan: order.wantsSpan,
    limit: Number.POSITIVE_INFINITY,
  });
  post({ kind: "head", head: feed.head });
  try {
    await writeStrides(feed, ring);
  } catch (error) {
    if (!(error instanceof RingCancelled)) throw error;
    feed.cancel();
    post({ kind: "cancelled" });
    return;
  }
  const { doneBytes, packets } = feed.progress();
  ring.setProgress(doneBytes, packets);
  const tail = feed.finish();
  ring.close();
  post({ kind: "tail", tail });
}

async function writeStrides(feed: DirectFeed, ring: RingWriter): Promise<void> {
  for (let n = 1; ; n++) {
    const stride = await feed.next();
    if (stride === null) break;
    if (stride.kind === "end") ring.writeEnd(stride.side, stride.lastNs);
    else ring.writeRows(stride);
    if (n % PROGRESS_EVERY === 0) {
      const { doneBytes, packets } = feed.progress();
      ring.setProgress(doneBytes, packets);
    }
  }
}

function describe(error: unknown): SentError {
  if (error instanceof UsageError) {
    return { name: "UsageError", code: error.code, message: error.message, hint: error.hint };
  }
  if (error instanceof FormatError) {
    const { code, file, offset, message } = error;
    return { name: "FormatError", code, file, offset, message };
  }
  return { name: "Error", message: (error as Error)?.stack ?? String(error) };
}

/** The system provides memory page by page at the first access: this thread touches the pages that the other thread will use next. */
const PAGE_BYTES = 4096;
const AHEAD_BYTES = 12 << 20;

function toucher(memory: KernelMemory, from: number): (inUse: number) => void {
  let next = from;
  return (inUse) => {
    if (inUse === 0) return;
    const words = new Int32Array(memory.buffer);
    const end = Math.min(words.byteLength, inUse + AHEAD_BYTES);
    // Replaces 0 by 0, which is safe whatever the other thread does with the word, and is a write from the start (adding 0 would read first).
    for (; next < end; next += PAGE_BYTES) Atomics.compareExchange(words, next >>> 2, 0, 0);
  };
}

const port = parentPort;
if (port) {
  const post = (message: FeedMessage) => port.postMessage(message);
  post({ kind: "up" });
  port.once("message", ({ memory, ring: address, rows }: FeedStart) => {
    const ring = new RingWriter(memory.buffer, address, rows, toucher(memory, address + ringBytes(rows)));
    port.on("message", (order: FeedOrder | FeedEnd) => {
      if (order === "end") {
        port.close();
        return;
      }
      // The ring is released before the last message: then the other side may start again.
      serve(order, ring, post).catch((error) => {
        ring.close();
        post({ kind: "error", error: describe(error) });
      });
    });
  });
}
