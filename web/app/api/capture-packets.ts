/** Delays of the packets of a capture. The capture is read in a worker of this browser (web/compare); only digests, times and sizes go to the collector. */

import { withFlags } from "../../../src/cli/flags.ts";
import type { Answer, AskedCapture, Order } from "../../compare/messages.ts";
import type { PacketAnswer } from "../parts/packet-groups.tsx";
import { token } from "../state/settings.ts";
import { Refusal } from "./client.ts";

export function askCapture(file: File, question: AskedCapture, signal: AbortSignal): Promise<PacketAnswer> {
  const worker = new Worker("compare/worker.js");
  return new Promise<PacketAnswer>((resolve, reject) => {
    signal.addEventListener("abort", () => reject(new DOMException("not wanted any more", "AbortError")));
    worker.onerror = (event) =>
      reject(new Refusal(0, "page", event.message || "the browser does not run the worker"));
    worker.onmessage = ({ data }: MessageEvent<Answer>) => {
      if (data.kind === "packets") resolve(data.answer);
      else if (data.kind === "error") {
        const where = data.field === null ? "" : `${data.field}: `;
        reject(new Refusal(400, "page", withFlags(where + data.problem), data.hint && withFlags(data.hint)));
      }
    };
    const order: Order = {
      ...{ kind: "packets", file, question, token: token.value },
      collector: new URL(".", location.href).href,
    };
    worker.postMessage(order);
  }).finally(() => worker.terminate());
}
