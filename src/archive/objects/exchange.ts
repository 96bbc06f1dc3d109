/** An HTTP exchange with an object store: asynchronous, or blocking while a thread does it. */
import * as http from "node:http";
import * as https from "node:https";
import { MessageChannel, receiveMessageOnPort, Worker } from "node:worker_threads";
import type { SignedRequest } from "./sign.ts";

export interface ObjectAnswer {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  body: Uint8Array;
}

type Reply = { answer: ObjectAnswer } | { code: string; message: string };

export interface Modules {
  http: Pick<typeof http, "request" | "Agent">;
  https: Pick<typeof https, "request" | "Agent">;
}

const LIMIT_MS = 30_000;
const MAX_SOCKETS = 16;

/** Must be self-contained: the thread runs it, too, from its source text. */
function exchanger({ http, https }: Modules, limitMs: number, maxSockets: number) {
  const agents = {
    "http:": new http.Agent({ keepAlive: true, maxSockets }),
    "https:": new https.Agent({ keepAlive: true, maxSockets }),
  };
  return {
    close: () => {
      for (const agent of Object.values(agents)) agent.destroy();
    },
    exchange: ({ method, url, headers, body }: SignedRequest): Promise<ObjectAnswer> =>
      new Promise((resolve, reject) => {
        const isTls = url.startsWith("https:");
        const agent = agents[isTls ? "https:" : "http:"];
        const sent = (isTls ? https : http).request(url, { method, headers, agent }, (response) => {
          const parts: Uint8Array[] = [];
          response.on("data", (part) => parts.push(part));
          response.on("error", reject);
          response.on("aborted", () =>
            reject(Object.assign(new Error("the answer was cut off"), { code: "ECONNRESET" })),
          );
          response.on("end", () => {
            const bytes = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
            let at = 0;
            for (const part of parts) {
              bytes.set(part, at);
              at += part.length;
            }
            resolve({ status: response.statusCode ?? 0, headers: { ...response.headers }, body: bytes });
          });
        });
        sent.setTimeout(limitMs, () =>
          sent.destroy(Object.assign(new Error(`no answer in ${limitMs / 1000} s`), { code: "ETIMEDOUT" })),
        );
        sent.on("error", reject);
        sent.end(body ?? undefined);
      }),
  };
}

export class Exchanges {
  readonly #own = exchanger({ http, https }, LIMIT_MS, MAX_SOCKETS);

  send(request: SignedRequest): Promise<ObjectAnswer> {
    return this.#own.exchange(request);
  }

  close(): void {
    this.#own.close();
  }
}

/** For threads that read records: blocks until the answer. */
export class WaitedExchanges {
  #worker: Worker | null = null;
  readonly #flag = new Int32Array(new SharedArrayBuffer(4));
  readonly #channel = new MessageChannel();

  send(request: SignedRequest): ObjectAnswer {
    this.#worker ??= this.#start();
    Atomics.store(this.#flag, 0, 0);
    this.#channel.port1.postMessage(request);
    if (Atomics.wait(this.#flag, 0, 0, 2 * LIMIT_MS) === "timed-out")
      throw Object.assign(new Error("no answer"), { code: "ETIMEDOUT" });
    const reply = receiveMessageOnPort(this.#channel.port1)?.message as Reply | undefined;
    if (reply && "answer" in reply) return reply.answer;
    throw Object.assign(new Error(reply?.message ?? "no answer"), { code: reply?.code ?? "" });
  }

  close(): void {
    this.#channel.port1.close();
    void this.#worker?.terminate();
    this.#worker = null;
  }

  /** Starts the thread from source text: when the sources run directly there is no program file for a thread. */
  #start(): Worker {
    const { port2 } = this.#channel;
    const program = `
      const { workerData: { port, flag, limitMs, maxSockets } } = require("node:worker_threads");
      const modules = { http: require("node:http"), https: require("node:https") };
      const { exchange } = (${exchanger})(modules, limitMs, maxSockets);
      port.on("message", async (request) => {
        let reply;
        try { reply = { answer: await exchange(request) }; }
        catch (error) { reply = { code: String(error.code ?? ""), message: error.message }; }
        port.postMessage(reply);
        Atomics.store(flag, 0, 1);
        Atomics.notify(flag, 0);
      });`;
    const worker = new Worker(program, {
      eval: true,
      workerData: { port: port2, flag: this.#flag, limitMs: LIMIT_MS, maxSockets: MAX_SOCKETS },
      transferList: [port2],
    });
    worker.unref();
    this.#channel.port1.unref();
    return worker;
  }
}
