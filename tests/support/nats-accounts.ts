/** An operator, an account and a user of NATS, as from `nsc`: signed JWTs for a server's configuration, and the user's `.creds` file. */
import { nkeys } from "@nats-io/transport-node";

type KeyPair = ReturnType<typeof nkeys.createUser>;

export interface NatsAccounts {
  /** Lines for a server's configuration. */
  server: string;
  /** Content of the user's .creds file. */
  creds: string;
}

const UNLIMITED = { subs: -1, data: -1, payload: -1 };
const ACCOUNT_LIMITS = { ...UNLIMITED, imports: -1, exports: -1, wildcards: true, conn: -1, leaf: -1 };
const JETSTREAM_LIMITS = { mem_storage: -1, disk_storage: -1, streams: -1, consumer: -1 };

export function natsAccounts(expires?: Date): NatsAccounts {
  const [operator, account, system, user] = [
    nkeys.createOperator(),
    nkeys.createAccount(),
    nkeys.createAccount(),
    nkeys.createUser(),
  ];
  const limits = { ...ACCOUNT_LIMITS, ...JETSTREAM_LIMITS };
  const preloaded = [
    [account.getPublicKey(), signed(operator, account, "hoptime", { type: "account", limits })],
    [system.getPublicKey(), signed(operator, system, "SYS", { type: "account", limits: ACCOUNT_LIMITS })],
  ];
  const jwt = signed(account, user, "tap", { type: "user", ...UNLIMITED }, expires);
  return {
    server: [
      `operator: ${signed(operator, operator, "test", { type: "operator" })}`,
      `system_account: ${system.getPublicKey()}`,
      "resolver: MEMORY",
      `resolver_preload: { ${preloaded.map(([key, text]) => `${key}: ${text}`).join(", ")} }`,
    ].join("\n"),
    creds: [
      "-----BEGIN NATS USER JWT-----",
      jwt,
      "------END NATS USER JWT------",
      "",
      "-----BEGIN USER NKEY SEED-----",
      new TextDecoder().decode(user.getSeed()),
      "------END USER NKEY SEED------",
      "",
    ].join("\n"),
  };
}

function signed(issuer: KeyPair, subject: KeyPair, name: string, nats: object, expires?: Date): string {
  const encoded = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const claims = {
    ...{ jti: name, iat: Math.floor(Date.now() / 1000) - 60 },
    ...(expires ? { exp: Math.floor(expires.getTime() / 1000) } : {}),
    ...{ iss: issuer.getPublicKey(), name, sub: subject.getPublicKey(), nats: { ...nats, version: 2 } },
  };
  const text = `${encoded({ typ: "JWT", alg: "ed25519-nkey" })}.${encoded(claims)}`;
  return `${text}.${Buffer.from(issuer.sign(new TextEncoder().encode(text))).toString("base64url")}`;
}
