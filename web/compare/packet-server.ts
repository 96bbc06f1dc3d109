/** Asks a collector about captured packets: src/server/client.ts with the browser's fetch. */
import { UsageError } from "../../src/base/errors.ts";
import type { PacketServer } from "../../src/query/packet/remote.ts";
import type { PacketSettings } from "../../src/query/packet/serve.ts";

const QUESTION_TYPE = "application/vnd.hoptime.packet-question";
/** Maximum length of a message that a collector accepts (src/server/app.ts). */
const MAX_BYTES = 64 << 20;

/** `collector`: its address, with a trailing slash. */
export function packetServer(collector: string, token: string): PacketServer {
  const ask = async (path: string, query: Record<string, string | undefined>, body?: Uint8Array) => {
    const url = new URL(path, collector);
    for (const [name, value] of Object.entries(query))
      if (value !== undefined) url.searchParams.set(name, value);
    const headers = new Headers(token === "" ? {} : { authorization: `Bearer ${token}` });
    if (body) headers.set("content-type", QUESTION_TYPE);
    const response = await fetch(url, {
      headers,
      ...(body ? { method: "POST", body: body as Uint8Array<ArrayBuffer> } : {}),
    });
    if (response.ok) return response;
    const told = (await response.json().catch(() => null)) as { message?: string; hint?: string } | null;
    throw new UsageError(
      "no-records",
      told?.message ?? `the collector answered ${response.status}`,
      told?.hint,
    );
  };
  return {
    maxBytes: MAX_BYTES,
    settings: async ({ point, segment }) =>
      (await (await ask("v1/packets/settings", { point, segment })).json()) as PacketSettings,
    ask: async ({ point, segment }, message) =>
      new Uint8Array(await (await ask("v1/packets", { point, segment }, message)).arrayBuffer()),
  };
}
