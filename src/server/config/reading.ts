/**
 * How the text values of settings are parsed. Each function returns the parsed value or throws a UsageError that states what was expected. The file
 * reader prefixes the position, the command line the flag.
 */

import { accessSync, constants } from "node:fs";
import { bucketOf } from "../../archive/objects/object-place.ts";
import { invalidValue, UsageError } from "../../base/errors.ts";
import { parseSize } from "../../base/quantity.ts";
import { parseDuration } from "../../base/time.ts";
import type { CollectedSegment } from "../../collect/collector.ts";
import { checkName } from "../../observe/observer.ts";
import { parseNatsUrl } from "../../transport/nats/nats-url.ts";
import { parseCondition } from "../alerts/condition.ts";
import { parseListen } from "../listen.ts";
import type { ProbeTarget } from "../station.ts";
import { readClickhouse } from "./clickhouse-options.ts";
import type { Reads } from "./settings.ts";

export function readDuration(text: string, parameter = "time"): number {
  const ns = parseDuration(text);
  if (!(ns > 0))
    throw invalidValue(parameter, text, "a time above 0, e.g. 1s, 250ms or 10us", { code: "bad-time" });
  return ns;
}

/** Parses `A:B`, or `A:B=gold` for records with a label. */
export function readSegment(text: string, parameter = "segment"): CollectedSegment {
  const match = /^([^:=]+):([^:=]+)(?:=(.*))?$/.exec(text);
  if (!match?.[1] || !match[2] || match[1] === match[2])
    throw invalidValue(parameter, text, "SENDER:RECEIVER or SENDER:RECEIVER=LABEL");
  checkName("point", match[1]);
  checkName("point", match[2]);
  return { from: match[1], to: match[2], label: match[3] ?? "" };
}

/** Parses `A:B=192.0.2.9`, `A:B=192.0.2.9:862` or `A:B=[2001:db8::1]:862`. */
export function readProbe(text: string, parameter = "probe"): ProbeTarget {
  const match = /^([^:=]+):([^:=]+)=(?:\[([^\]]+)\]|([^:]+))(?::(\d{1,5}))?$/.exec(text);
  const [, from, to, v6, v4, port] = match ?? [];
  const address = v6 ?? v4;
  if (!from || !to || !address)
    throw invalidValue(parameter, text, "SENDER:RECEIVER=ADDRESS or SENDER:RECEIVER=ADDRESS:PORT");
  return { from, to, address, port: port === undefined ? undefined : Number(port) };
}

function readUrl(text: string, parameter = "url"): URL {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url?.protocol !== "http:" && url?.protocol !== "https:")
    throw invalidValue(parameter, withoutUser(text), "a URL, http://… or https://…");
  if (url.username !== "" || url.password !== "")
    throw new UsageError(
      "bad-parameter",
      "URLs are logged, so they must not contain a password",
      "put a token into a file: tokenFile",
      {
        parameter,
      },
    );
  return url;
}

const withoutUser = (text: string) => text.replace(/\/\/[^/@]*@/, "//…@");

function readFile(path: string, parameter = "file"): string {
  try {
    accessSync(path, constants.R_OK);
  } catch (cause) {
    throw new UsageError("no-such-file", `${path}: cannot be read`, undefined, {
      parameter,
      value: path,
      cause,
    });
  }
  return path;
}

/** Returns the parsed value. Throws UsageError if the text is invalid. */
export const READINGS: Record<Reads, (text: string, parameter?: string) => unknown> = {
  duration: readDuration,
  size: parseSize,
  segment: readSegment,
  condition: parseCondition,
  file: readFile,
  url: readUrl,
  listen: parseListen,
  name: (text) => text,
  nats: parseNatsUrl,
  probe: readProbe,
  clickhouse: readClickhouse,
  objects: bucketOf,
};
