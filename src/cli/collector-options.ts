/** `--token-file` and the like: how commands reach a collector. */
import { readFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { type Command, Option } from "commander";
import { UsageError } from "../base/errors.ts";
import { type Endpoint, parseCollectorUrl } from "../transport/http/collector-url.ts";

export interface CollectorFlags {
  tokenFile?: string;
  ca?: string;
  cert?: string;
  certKey?: string;
}

/** Those for TLS are described in docs/collect.md: few need them, and help has to fit. */
export function addCollectorOptions(command: Command): Command {
  return command
    .option("--token-file <file>", "token of the collector (default: $HOPTIME_TOKEN)")
    .addOption(
      new Option("--ca <file>", "with https: certificate authority of the collector, PEM").hideHelp(),
    )
    .addOption(new Option("--cert <file>", "with https: certificate of this client, PEM").hideHelp())
    .addOption(
      new Option("--cert-key <file>", "with https: key of this client's certificate, PEM").hideHelp(),
    );
}

export function endpointOf(url: string, { tokenFile, ca, cert, certKey }: CollectorFlags): Endpoint {
  parseCollectorUrl(url);
  const token =
    tokenFile === undefined ? process.env["HOPTIME_TOKEN"] : readText("token-file", tokenFile).trim();
  return {
    url,
    ...(token === undefined || token === "" ? {} : { token }),
    ...(ca === undefined ? {} : { ca: readText("ca", ca) }),
    ...(cert === undefined ? {} : { certificate: readText("cert", cert) }),
    ...(certKey === undefined ? {} : { key: readText("cert-key", certKey) }),
  };
}

export function readText(parameter: string, file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (cause) {
    throw new UsageError("no-such-file", `${file}: cannot be read`, undefined, {
      parameter,
      value: file,
      cause,
    });
  }
}

/** Where records wait by default: a folder per collector and point. */
export function defaultSpool(url: string, point: string): string {
  const state = process.env["XDG_STATE_HOME"] ?? join(homedir(), ".local", "state");
  const { host } = parseCollectorUrl(url);
  const plain = (name: string) => encodeURIComponent(name).replace(/^\./, "%2E");
  return join(state, "hoptime", "spool", plain(host), plain(point));
}
