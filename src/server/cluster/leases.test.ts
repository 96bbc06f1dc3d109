import { setTimeout as sleep } from "node:timers/promises";
import type { KV } from "@nats-io/kv";
import { expect, it } from "vitest";
import { Leases } from "./leases.ts";

it("a worker that is to give partitions back while the brokers are away goes on, and gives them back later", async () => {
  let isAway = false;
  let workers = ["a"];
  let revision = 0;
  const values = new Map<string, string>();
  const write = async (key: string, value: string) => {
    if (isAway && key.startsWith("lease")) throw new Error("timeout");
    values.set(key, value);
    return ++revision;
  };
  const bucket = {
    get: async () => null,
    ...{ create: write, update: write, put: write, purge: async () => undefined },
  } as unknown as KV;
  const troubles: unknown[] = [];
  const leases = new Leases({
    ...{ bucket, worker: "a", partitions: 4, lifeMs: 600 },
    ...{ onGained: () => undefined, onLost: () => undefined, release: async () => undefined },
    onTrouble: (error) => troubles.push(error),
    // The brokers become unreachable between the renewals of a look and its giving back.
    listWorkers: async () => {
      isAway ||= workers.length === 2 && troubles.every((t) => t === null);
      return workers;
    },
  });
  leases.start();
  while (leases.partitions.length < 4) await sleep(10);
  workers = ["a", "b"];
  while (troubles.every((t) => t === null)) await sleep(10);
  isAway = false;
  while (leases.partitions.length > 2) await sleep(10);
  expect([...values.values()].filter((v) => v.includes("null"))).toHaveLength(2);
  await leases.close();
});
