import { expect, test } from "vitest";
import { Kernels } from "../base/kernels.ts";
import { FLAG, PacketBatch } from "../capture/batch.ts";
import { AgreedNetworks } from "./agreed-networks.ts";
import { DirectionCheck } from "./directions.ts";

const kernels = new Kernels();

/**
 * A batch of packets between clients 10.1.0.x and servers 10.2.0.x in both directions, as one point sees it: with the TTLs and interface marks at
 * that point.
 */
function seen(options: { clientTtl: number; serverTtl: number; marks: [number, number]; hosts?: number }) {
  const { clientTtl, serverTtl, marks, hosts = 8 } = options;
  const batch = new PacketBatch(kernels, 256);
  batch.count = 200;
  const { addrA, meta, flags } = batch;
  for (let i = 0; i < 200; i++) {
    const [client, server] = [0x0a010001 + (i % hosts), 0x0a020001 + (i % hosts)];
    const there = i % 2 === 0;
    addrA[2 * i + 1] = there ? client : server;
    addrA[2 * i] = there ? server : client;
    meta.fill(0, 2 * i, 2 * i + 2);
    flags[i] = (there ? clientTtl : serverTtl) | (there ? marks[0] : marks[1]);
  }
  const check = new DirectionCheck();
  check.add(batch);
  batch.free();
  return check;
}

const { inbound, outbound } = FLAG;
const nobody = async () => [];
/** A router between them: its interface towards the clients, and the one towards the servers. */
const toClients = () => seen({ clientTtl: 64, serverTtl: 63, marks: [inbound, outbound] });
const toServers = () => seen({ clientTtl: 63, serverTtl: 64, marks: [outbound, inbound] });

test("points on either side of a router choose the same networks, each by itself", async () => {
  const chosen = await Promise.all(
    [toClients(), toServers()].map((check) => new AgreedNetworks(check, nobody).first()),
  );
  expect(chosen).toEqual([["10.1.0.0/24"], ["10.1.0.0/24"]]);
});

test("a mirror port, where all packets come in, chooses them too", async () => {
  const mirror = seen({ clientTtl: 62, serverTtl: 57, marks: [inbound, inbound] });
  expect(await new AgreedNetworks(mirror, nobody).first()).toEqual(["10.1.0.0/24"]);
});

test("what another point uses is taken over where it separates the packets here", async () => {
  const others = async () => [["192.0.2.0/24"], ["10.2.0.0/16"]];
  expect(await new AgreedNetworks(toClients(), others).first()).toEqual(["10.2.0.0/16"]);
});

test("points that chose differently change to the same when they hear of each other", async () => {
  const use = { a: ["10.2.0.0/24"], b: ["10.1.0.0/24"] };
  const hears = async (own: string[], other: string[]) => {
    const agreed = new AgreedNetworks(toClients(), async () => [other], 5);
    let changed = false;
    const unwatch = agreed.watch(own, () => {
      changed = true;
    });
    // Each asks every 5 ms: one of the two learns of better networks, the other never does.
    for (let i = 0; i < 50 && !changed; i++) await new Promise((resolve) => setTimeout(resolve, 5));
    unwatch();
    return changed ? agreed.better : own;
  };
  expect(await Promise.all([hears(use.a, use.b), hears(use.b, use.a)])).toEqual([use.b, use.b]);
});

test("who cannot be asked does not stop a point from choosing", async () => {
  const away = () => Promise.reject(new Error("away"));
  expect(await new AgreedNetworks(toClients(), away).first()).toEqual(["10.1.0.0/24"]);
});
