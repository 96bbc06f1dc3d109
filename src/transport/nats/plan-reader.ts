/** What a tap asks a cluster before it starts: the plan, and the labels that other points use. */
import { UsageError } from "../../base/errors.ts";
import { openCluster, PLAN_KEY, STREAM } from "./cluster.ts";
import { connectNats, type NatsLink, refusal } from "./connection.ts";
import type { NatsEndpoint } from "./nats-url.ts";
import { parseSubject, SUBJECT_ROOT } from "./subjects.ts";

export class PlanReader {
  readonly #endpoint: NatsEndpoint;
  #link: NatsLink | null = null;

  constructor(endpoint: NatsEndpoint) {
    this.#endpoint = endpoint;
  }

  /** Returns the plan's text; null if none was set. Throws a UsageError (no-records) if the cluster is unreachable. */
  async read(): Promise<string | null> {
    return await this.#with(async (link) => {
      const { bucket } = await openCluster(link);
      const entry = await bucket.get(PLAN_KEY);
      return entry?.operation === "PUT" ? entry.string() : null;
    });
  }

  /** Labels by point. */
  async labels(): Promise<Map<string, string[]>> {
    return await this.#with((link) => labelsIn(link));
  }

  async close(): Promise<void> {
    await this.#link?.close();
    this.#link = null;
  }

  async #with<T>(work: (link: NatsLink) => Promise<T>): Promise<T> {
    try {
      this.#link ??= await connectNats(this.#endpoint, { name: "hoptime observe" });
      return await work(this.#link);
    } catch (error) {
      await this.close();
      throw error instanceof UsageError
        ? error
        : refusal(this.#endpoint.url.replace(/\/\/[^@]*@/, "//"), error);
    }
  }
}

/** Returns the points with records in the stream, and their labels. */
export async function labelsIn(link: NatsLink): Promise<Map<string, string[]>> {
  return (await streamNow(link)).labels;
}

/** The same, and when the stream was created. */
export async function streamNow({
  streams,
}: NatsLink): Promise<{ created: string; labels: Map<string, string[]> }> {
  const { state, created } = await streams.streams.info(STREAM, { subjects_filter: `${SUBJECT_ROOT}.>` });
  const labels = new Map<string, Set<string>>();
  for (const subject of Object.keys(state.subjects ?? {})) {
    const parts = parseSubject(subject);
    if (!parts) continue;
    const known = labels.get(parts.point) ?? new Set();
    labels.set(parts.point, known.add(parts.label));
  }
  return { created, labels: new Map([...labels].map(([point, own]) => [point, [...own].sort()])) };
}
