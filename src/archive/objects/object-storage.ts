/**
 * Records in an object store with the S3 interface: one object per record, whose key is the record's path below the prefix. Folders are common prefixes of
 * keys. Read in ranges: a packet query needs a few bytes here and there from records of megabytes, so blocks are read and cached.
 */
import { FormatError, UsageError } from "../../base/errors.ts";
import type { OpenFile, RecordStorage, StorageEntry } from "../storage.ts";
import { Exchanges, type ObjectAnswer, WaitedExchanges } from "./exchange.ts";
import { away, refused } from "./failures.ts";
import { type ObjectPlace, placeName } from "./object-place.ts";
import { type ObjectRequest, signed } from "./sign.ts";

/** Bytes read at a time. */
const BLOCK = 64 * 1024;
const MAX_BLOCKS = 512;
/** How long a folder's list is cached. */
const LISTED_MS = 10_000;
const MAX_LISTED = 10_000;
const ATTEMPTS = 3;

export class ObjectStorage implements RecordStorage {
  /** s3://BUCKET[/PREFIX] */
  readonly root: string;
  readonly #place: ObjectPlace;
  readonly #exchanges = new Exchanges();
  readonly #waited = new WaitedExchanges();
  readonly #blocks = new Map<string, Uint8Array>();
  readonly #listed = new Map<string, { entries: StorageEntry[]; untilMs: number }>();

  constructor(place: ObjectPlace) {
    this.#place = place;
    this.root = placeName(place);
  }

  below(folder: string, name: string): string {
    return `${folder}/${name}`;
  }

  list(folder: string): StorageEntry[] {
    const nowMs = performance.now();
    const known = this.#listed.get(folder);
    if (known && known.untilMs > nowMs) return known.entries;
    const prefix = this.#key(folder) === "" ? "" : `${this.#key(folder)}/`;
    const entries: StorageEntry[] = [];
    for (let token: string | null = null; ; ) {
      const answer = this.#wait({ method: "GET", key: "", query: listQuery(prefix, token) });
      if (answer.status !== 200) throw refused(this.#place, answer);
      token = entriesIn(new TextDecoder().decode(answer.body), prefix, entries);
      if (token === null) break;
    }
    entries.sort((a, b) => (a.name < b.name ? -1 : 1));
    if (this.#listed.size >= MAX_LISTED) this.#listed.clear();
    this.#listed.set(folder, { entries, untilMs: nowMs + LISTED_MS });
    return entries;
  }

  names(folder: string): string[] {
    return this.list(folder).map(({ name }) => name);
  }

  open(file: string): OpenFile {
    const answer = this.#wait({ method: "HEAD", key: this.#key(file) });
    if (answer.status === 404) throw new FormatError("truncated", file, 0, "the record is no longer there");
    if (answer.status !== 200) throw refused(this.#place, answer);
    const version = String(answer.headers["etag"] ?? "");
    const size = Number(answer.headers["content-length"]);
    return {
      size,
      read: (into, at) => this.#read({ file, version, size }, into, at),
      close: () => undefined,
    };
  }

  sizeOf(file: string): number {
    const { status, headers } = this.#wait({ method: "HEAD", key: this.#key(file) });
    return status === 200 ? Number(headers["content-length"]) : 0;
  }

  text(file: string): string | null {
    const answer = this.#wait({ method: "GET", key: this.#key(file) });
    if (answer.status === 404 && !isNoBucket(answer)) return null;
    if (answer.status !== 200) throw refused(this.#place, answer);
    return new TextDecoder().decode(answer.body);
  }

  /** Throws a UsageError if there is no such bucket, or it may not be read. */
  check(): void {
    const answer = this.#wait({ method: "GET", key: "", query: { "list-type": "2", "max-keys": "1" } });
    if (answer.status !== 200) throw refused(this.#place, answer);
  }

  /** Returns the checksum of an object as stated by the store (its ETag); null if there is no such object. */
  async version(file: string): Promise<string | null> {
    const answer = await this.#send({ method: "HEAD", key: this.#key(file) });
    if (answer.status === 404) return null;
    if (answer.status !== 200) throw refused(this.#place, answer);
    return String(answer.headers["etag"] ?? "").replaceAll('"', "");
  }

  async get(file: string): Promise<Uint8Array | null> {
    const answer = await this.#send({ method: "GET", key: this.#key(file) });
    if (answer.status === 404 && !isNoBucket(answer)) return null;
    if (answer.status !== 200) throw refused(this.#place, answer);
    return answer.body;
  }

  /**
   * Stores an object; resolves when it is stored. Returns false if the name is taken and `replace` is not set; stores that do not support the condition replace
   * the object.
   */
  async put(file: string, bytes: Uint8Array, replace: boolean): Promise<boolean> {
    const headers: Record<string, string> = replace ? {} : { "if-none-match": "*" };
    const answer = await this.#send({ method: "PUT", key: this.#key(file), headers, body: bytes });
    if (answer.status === 412 || answer.status === 409) return false;
    if (answer.status !== 200) throw refused(this.#place, answer);
    return true;
  }

  async remove(file: string): Promise<void> {
    const answer = await this.#send({ method: "DELETE", key: this.#key(file) });
    if (answer.status >= 300 && answer.status !== 404) throw refused(this.#place, answer);
  }

  close(): void {
    this.#exchanges.close();
    this.#waited.close();
  }

  #read(file: { file: string; version: string; size: number }, into: Uint8Array, at: number): number {
    let have = 0;
    while (have < into.length && at + have < file.size) {
      const number = Math.floor((at + have) / BLOCK);
      const block = this.#block(file, number);
      const start = at + have - number * BLOCK;
      const part = block.subarray(start, start + into.length - have);
      if (part.length === 0) break;
      into.set(part, have);
      have += part.length;
    }
    return have;
  }

  #block(
    { file, version, size }: { file: string; version: string; size: number },
    number: number,
  ): Uint8Array {
    const name = `${number} ${version} ${file}`;
    let block = this.#blocks.get(name);
    if (block) this.#blocks.delete(name);
    else {
      const last = Math.min(size, (number + 1) * BLOCK) - 1;
      const headers = { range: `bytes=${number * BLOCK}-${last}` };
      const answer = this.#wait({ method: "GET", key: this.#key(file), headers });
      if (answer.status === 404) throw new FormatError("truncated", file, 0, "the record is no longer there");
      if (answer.status !== 206 && answer.status !== 200) throw refused(this.#place, answer);
      // A store without range support answers with the whole object.
      block = answer.status === 206 ? answer.body : answer.body.subarray(number * BLOCK, last + 1);
    }
    this.#blocks.set(name, block);
    const [oldest] = this.#blocks.keys();
    if (this.#blocks.size > MAX_BLOCKS && oldest !== undefined) this.#blocks.delete(oldest);
    return block;
  }

  #key(file: string): string {
    const own = file.slice(this.root.length).replace(/^\//, "");
    return [this.#place.prefix, own].filter((part) => part !== "").join("/");
  }

  #wait(request: ObjectRequest): ObjectAnswer {
    for (let attempt = 1; ; attempt++) {
      try {
        const answer = this.#waited.send(signed(this.#place, request));
        if (answer.status < 500 || attempt === ATTEMPTS) return answer;
      } catch (error) {
        if (attempt === ATTEMPTS) throw away(this.#place, error);
      }
    }
  }

  async #send(request: ObjectRequest): Promise<ObjectAnswer> {
    try {
      return await this.#exchanges.send(signed(this.#place, request));
    } catch (error) {
      throw error instanceof UsageError ? error : away(this.#place, error);
    }
  }
}

function listQuery(prefix: string, token: string | null): Record<string, string> {
  return {
    "list-type": "2",
    delimiter: "/",
    ...(prefix === "" ? {} : { prefix }),
    ...(token === null ? {} : { "continuation-token": token }),
  };
}

/** Adds the entries of one page; returns the token of the next page, null after the last. */
function entriesIn(xml: string, prefix: string, entries: StorageEntry[]): string | null {
  for (const [, isFolder, key = ""] of xml.matchAll(
    /<(?:(CommonPrefixes)|Contents)>[\s\S]*?<(?:Prefix|Key)>([^<]*)<\/(?:Prefix|Key)>/g,
  )) {
    const name = plain(key).slice(prefix.length).replace(/\/$/, "");
    if (name !== "") entries.push({ name, isFolder: isFolder !== undefined });
  }
  if (!/<IsTruncated>true<\/IsTruncated>/.test(xml)) return null;
  return plain(/<NextContinuationToken>([^<]*)</.exec(xml)?.[1] ?? "") || null;
}

const ENTITIES: Record<string, string> = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'" };

function plain(xml: string): string {
  return xml.replace(/&(?:#x([0-9a-f]+)|#(\d+)|(\w+));/gi, (whole, hex, decimal, name) => {
    if (hex !== undefined) return String.fromCodePoint(Number.parseInt(hex, 16));
    if (decimal !== undefined) return String.fromCodePoint(Number(decimal));
    return ENTITIES[name] ?? whole;
  });
}

function isNoBucket({ body }: ObjectAnswer): boolean {
  return new TextDecoder().decode(body.subarray(0, 2048)).includes("NoSuchBucket");
}
