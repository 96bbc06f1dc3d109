/**
 * Real nats-servers with authentication: TLS with the test's own CA, client certificates, users, tokens, nkeys, JWTs. Records get through; each
 * error is one line, and taps spool meanwhile.
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { nkeys } from "@nats-io/transport-node";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { CertificateAuthority, NO_OPENSSL } from "../../../tests/support/certificates.ts";
import { clusterLoad, type Load } from "../../../tests/support/cluster-load.ts";
import { natsAccounts } from "../../../tests/support/nats-accounts.ts";
import { NatsServers, NO_NATS } from "../../../tests/support/nats-servers.ts";
import { connectNats } from "../../transport/nats/connection.ts";
import { NatsSink } from "../../transport/nats/nats-sink.ts";
import type { NatsEndpoint } from "../../transport/nats/nats-url.ts";
import { PlanReader } from "../../transport/nats/plan-reader.ts";
import { startServer } from "../server.ts";

const root = mkdtempSync(join(tmpdir(), "hoptime-credentials-"));
const why = NO_NATS ?? NO_OPENSSL;
if (why) console.log(`skipped: credentials of a cluster: ${why}`);
let next = 0;
let load: Load;
let ours: CertificateAuthority;
let others: CertificateAuthority;

type Way = Omit<NatsEndpoint, "url"> & { user?: string };

/** Returns nats:// or tls://, with USER@ if given. */
function endpoint(servers: NatsServers, { user, ...more }: Way, scheme = "nats"): NatsEndpoint {
  const url = servers.url.replace("nats://", `${scheme}://${user === undefined ? "" : `${user}@`}`);
  return { ...more, url };
}

async function withServer(more: string, work: (servers: NatsServers) => Promise<void>): Promise<void> {
  const servers = await NatsServers.start(
    join(root, `nats-${next++}`),
    1,
    `jetstream { store_dir: DIR }\n${more}`,
  );
  try {
    await work(servers);
  } finally {
    await servers.stop();
  }
}

const tls = (verify: boolean) => {
  const { certificateFile, keyFile } = ours.sign(`server-${next++}`);
  return `tls { cert_file: "${certificateFile}", key_file: "${keyFile}", ca_file: "${ours.own.certificateFile}", verify: ${verify} }`;
};

/** Publishes an epoch of a segment from a tap and has a worker with the same credentials process it. */
async function expectThrough(way: NatsEndpoint): Promise<void> {
  const number = next++;
  const sink = await NatsSink.open({ ...way, spoolDirectory: join(root, `spool-${number}`) });
  await Promise.all(load.epoch(number).map((r) => sink.put(r)));
  await sink.close();
  expect(sink.counts).toMatchObject({ sent: 2, waiting: 0 });
  const nats = { ...way, group: `g${number}`, partitions: 1, leaseMs: 3000 };
  const server = await startServer({
    ...{ data: join(root, `data-${number}`), listen: "127.0.0.1:0", tickMs: 50 },
    nats,
  });
  try {
    const { service } = server;
    for (let i = 0; i < 600 && (await service.results.newest()) === null; i++) await sleep(50);
    expect(await service.results.newest()).not.toBeNull();
  } finally {
    await server.close();
  }
}

/** Expects the tap to report this line and to keep the record. */
async function expectTapRefused(way: NatsEndpoint, line: RegExp): Promise<void> {
  const said: string[] = [];
  const number = next++;
  const sink = await NatsSink.open({
    ...{ ...way, spoolDirectory: join(root, `spool-${number}`), stopMs: 0, retryMs: [50, 100] },
    onState: (text) => said.push(text),
  });
  await Promise.all(load.epoch(number).map((r) => sink.put(r)));
  for (let i = 0; i < 600 && said.length === 0; i++) await sleep(20);
  await sink.close();
  expect(sink.counts).toMatchObject({ sent: 0, waiting: 2 });
  expect(said[0]).toMatch(line);
  expect(said[0]).toMatch(/; records wait in the spool$/);
  expect(said[0]).not.toMatch(/\n|secret/);
}

/** Expects the same of a worker, which fails to start. */
async function expectRefused(way: NatsEndpoint, line: RegExp): Promise<void> {
  await expectTapRefused(way, line);
  const nats = { ...way, group: "refused", partitions: 1 };
  const started = startServer({ data: join(root, `data-${next++}`), listen: "127.0.0.1:0", nats });
  await expect(started).rejects.toThrow(line);
}

describe.skipIf(why)("a NATS cluster that asks who comes", () => {
  beforeAll(async () => {
    load = await clusterLoad([{ from: "A", to: "B", label: "A:B" }], ["lda"], 1_750_000_000_000_000_000n);
    ours = new CertificateAuthority(join(root, "ours"), "our authority");
    others = new CertificateAuthority(join(root, "others"), "another authority");
  });
  afterAll(() => rmSync(root, { recursive: true, force: true }));

  it("takes a user and password, and an nkey, over TLS", async () => {
    const key = nkeys.createUser();
    const seed = new TextDecoder().decode(key.getSeed());
    const users = `authorization { users: [{ user: "tap", password: "secret:1" }, { nkey: ${key.getPublicKey()} }] }`;
    await withServer(`${tls(false)}\n${users}`, async (servers) => {
      const ca = ours.own.certificate;
      await expectThrough(endpoint(servers, { ca, user: "tap:secret%3A1" }, "tls"));
      await expectThrough(endpoint(servers, { ca, credentials: "tap:secret:1\n" }));
      await expectThrough(endpoint(servers, { ca, credentials: seed }));
      await expectRefused(endpoint(servers, { ca, user: "tap:secret" }), /authentication failed/);
      await expectRefused(endpoint(servers, { ca }), /authentication failed/);
      const unknownUser = new TextDecoder().decode(nkeys.createUser().getSeed());
      await expectRefused(endpoint(servers, { ca, credentials: unknownUser }), /authentication failed/);
      await expectRefused(
        endpoint(servers, { ca: others.own.certificate, user: "tap:secret%3A1" }),
        /TLS failed/,
      );
      await expectRefused(endpoint(servers, { user: "tap:secret%3A1" }, "tls"), /TLS failed/);
    });
  });

  it("takes records of a tap that has the rights that docs/cluster.md lists, and names what one lacks", async () => {
    const page = readFileSync("docs/cluster.md", "utf8");
    const [, list = ""] =
      /A user of NATS for a tap needs to publish (.*?), and to subscribe/.exec(page) ?? [];
    const rights = [...list.matchAll(/`([^`]+)`/g)].map(([, subject]) => `"${subject}"`);
    expect(rights.length).toBeGreaterThan(5);
    const user = (name: string, allowed: readonly string[]) =>
      `{ user: ${name}, password: secret, permissions: { publish: [${allowed.join(", ")}], subscribe: ["_INBOX.>"] } }`;
    const without = rights.filter((r) => !r.includes("hoptime.records"));
    await withServer(
      `authorization { users: [${user("tap", rights)}, ${user("mute", without)}] }`,
      async (servers) => {
        const number = next++;
        const sink = await NatsSink.open({
          ...endpoint(servers, { user: "tap:secret" }),
          spoolDirectory: join(root, `spool-${number}`),
        });
        await Promise.all(load.epoch(number).map((r) => sink.put(r)));
        await sink.close();
        expect(sink.counts).toMatchObject({ sent: 2, waiting: 0 });
        const plans = new PlanReader(endpoint(servers, { user: "tap:secret" }));
        expect(await plans.read()).toBeNull();
        expect([...(await plans.labels()).keys()]).toEqual(["A", "B"]);
        await plans.close();
        await expectTapRefused(
          endpoint(servers, { user: "mute:secret" }),
          /not permitted .*hoptime\.records/i,
        );
      },
    );
  });

  it("takes a client certificate, with a token", async () => {
    await withServer(`${tls(true)}\nauthorization { token: "secret" }`, async (servers) => {
      const { certificate, key } = ours.sign("tap");
      const way = { ca: ours.own.certificate, certificate, key, token: "secret" };
      await expectThrough(endpoint(servers, way));
      await expectRefused(endpoint(servers, { ...way, token: "other secret" }), /authentication failed/);
      const { certificate: _, key: __, ...without } = way;
      const refused = (other: Way, line: RegExp) =>
        expect(connectNats(endpoint(servers, other), { name: "tap", timeoutMs: 500 })).rejects.toThrow(line);
      await refused(without, /: the servers require a client certificate/);
      const forged = others.sign("tap");
      await refused(
        { ...way, certificate: forged.certificate, key: forged.key },
        /: the servers reject this client's certificate/,
      );
    });
  });

  it("takes JWT credentials of an operator's account", async () => {
    const { server, creds } = natsAccounts();
    await withServer(server, async (servers) => {
      await expectThrough(endpoint(servers, { credentials: creds }));
      await expectRefused(endpoint(servers, { credentials: natsAccounts().creds }), /authentication failed/);
      await expectRefused(
        endpoint(servers, { credentials: "-----BEGIN NATS USER JWT-----\nx\n" }),
        /credentials/,
      );
      await expectRefused(endpoint(servers, { credentials: "SUnothing" }), /credentials/);
    });
  });
});
