/** Options for access to a collector, such as `--token-file`. */
import { homedir } from "node:os";
import { join } from "node:path";
import { type Command, Option } from "commander";
import { readTextFile } from "../base/text-file.ts";
import { type Endpoint, isCollectorUrl, parseCollectorUrl } from "../transport/http/collector-url.ts";
import { isNatsUrl, type NatsEndpoint, parseNatsUrl } from "../transport/nats/nats-url.ts";

export interface CollectorFlags {
  tokenFile?: string;
  ca?: string;
  cert?: string;
  certKey?: string;
  creds?: string;
}

/** Returns whether the text is an address instead of a directory. */
export function isRemote(text: string): boolean {
  return isCollectorUrl(text) || isNatsUrl(text);
}

/** The options of the client's own certificate are only in docs/collect.md: few users need them, and help has to stay short. */
export function addCollectorOptions(command: Command): Command {
  return command
    .option("--token-file <file>", "with a collector: file with the token (default: $HOPTIME_TOKEN)")
    .option("--ca <file>", "with https: certificate authority of the collector, PEM")
    .addOption(new Option("--cert <file>", "with https: certificate of this client, PEM").hideHelp())
    .addOption(
      new Option("--cert-key <file>", "with https: key of this client's certificate, PEM").hideHelp(),
    );
}

/** `--creds`, for commands that send records. */
export function addCredentialsOption(command: Command): Command {
  return command.addOption(
    new Option("--creds <file>", "with nats: .creds file, seed of an nkey, or USER:PASSWORD"),
  );
}

export function endpointOf(
  url: string,
  { tokenFile, ca, cert, certKey, creds }: CollectorFlags,
): Endpoint & NatsEndpoint {
  if (isNatsUrl(url)) parseNatsUrl(url);
  else parseCollectorUrl(url);
  const token =
    tokenFile === undefined ? process.env["HOPTIME_TOKEN"] : readTextFile("token-file", tokenFile).trim();
  return {
    url,
    ...(token === undefined || token === "" ? {} : { token }),
    ...(ca === undefined ? {} : { ca: readTextFile("ca", ca) }),
    ...(cert === undefined ? {} : { certificate: readTextFile("cert", cert) }),
    ...(certKey === undefined ? {} : { key: readTextFile("cert-key", certKey) }),
    ...(creds === undefined ? {} : { credentials: readTextFile("creds", creds) }),
  };
}

/** Returns the default spool directory: one per collector and point. */
export function defaultSpool(url: string, point: string): string {
  const state = process.env["XDG_STATE_HOME"] ?? join(homedir(), ".local", "state");
  const host = isNatsUrl(url) ? parseNatsUrl(url).servers.join(",") : parseCollectorUrl(url).host;
  const plain = (name: string) => encodeURIComponent(name).replace(/^\./, "%2E");
  return join(state, "hoptime", "spool", plain(host), plain(point));
}
