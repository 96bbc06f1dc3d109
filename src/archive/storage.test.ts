/**
 * Storage of records: the same guarantees for a directory, an object store (a real server on loopback, which checks keys but not signatures), and a directory
 * with an object store behind it.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ObjectServer } from "../../tests/support/object-server.ts";
import { FormatError } from "../base/errors.ts";
import { LayeredStorage } from "./layered-storage.ts";
import { readObjectPlace } from "./objects/object-place.ts";
import { ObjectStorage } from "./objects/object-storage.ts";
import { authorization, signed } from "./objects/sign.ts";
import { FILES, type RecordStorage } from "./storage.ts";

const root = mkdtempSync(join(tmpdir(), "hoptime-storage-"));
let server: ObjectServer;
const open: ObjectStorage[] = [];
beforeAll(async () => {
  server = await ObjectServer.start("records");
});
afterAll(async () => {
  for (const storage of open) storage.close();
  await server.close();
  rmSync(root, { recursive: true, force: true });
});

interface Place {
  storage: RecordStorage;
  root: string;
  put(path: string, bytes: Uint8Array): Promise<void>;
}

function onDisk(name: string): Place {
  const folder = join(root, name);
  const put = async (path: string, bytes: Uint8Array) => {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), bytes);
  };
  return { storage: FILES, root: folder, put };
}

function inStore(prefix: string): Place & { storage: ObjectStorage } {
  const storage = new ObjectStorage(server.place("records", prefix));
  open.push(storage);
  const put = async (path: string, bytes: Uint8Array) => {
    expect(await storage.put(`${storage.root}/${path}`, bytes, false)).toBe(true);
  };
  return { storage, root: storage.root, put };
}

/** Every other file is in the store behind. */
function layered(name: string): Place {
  const [near, far] = [onDisk(name), inStore(name)];
  let n = 0;
  return {
    storage: new LayeredStorage(near.root, far.storage),
    root: near.root,
    put: (path, bytes) => (n++ % 2 === 0 ? near : far).put(path, bytes),
  };
}

const KINDS: [string, () => Place][] = [
  ["a directory", () => onDisk("conformance")],
  ["an object store", () => inStore("some/prefix")],
  ["an object store without a prefix", () => inStore("")],
  ["a directory with an object store behind it", () => layered("layered")],
];
const bytes = (length: number) => Uint8Array.from({ length }, (_, i) => (i * 7) % 251);

describe.each(KINDS)("%s", (_, make) => {
  it("lists folders by name, reads whole files and parts of them, and says what is not there", async () => {
    const { storage, root: top, put } = make();
    const below = (...names: string[]) => names.reduce((path, name) => storage.below(path, name), top);
    const large = bytes(200_000);
    const names = ["b", "a", "%2E x&y<1>", "a.b"];
    for (const name of names) await put(`P/${name}/one.hop`, bytes(3));
    await put("P/a/two.hop", large);
    await put("Q/z/one.hop", bytes(1));
    const tops = storage.list(top).filter(({ name }) => name === "P" || name === "Q");
    expect(tops).toEqual(["P", "Q"].map((name) => ({ name, isFolder: true })));
    expect(storage.list(below("P")).map((e) => e.name)).toEqual([...names].sort());
    expect(storage.list(below("P", "a"))).toEqual(
      ["one.hop", "two.hop"].map((name) => ({ name, isFolder: false })),
    );
    expect(storage.names(below("P", "a")).sort()).toEqual(["one.hop", "two.hop"]);
    expect(storage.list(below("nothing"))).toEqual([]);
    expect(storage.sizeOf(below("P", "a", "two.hop"))).toBe(200_000);
    expect(storage.sizeOf(below("P", "a", "no.hop"))).toBe(0);
    expect(storage.text(below("P", "a", "no.hop"))).toBeNull();
    const file = storage.open(below("P", "a", "two.hop"));
    expect(file.size).toBe(200_000);
    for (const [at, length] of [
      [0, 10],
      [65_530, 12],
      [131_000, 69_000],
      [199_990, 64],
      [200_000, 4],
    ] as const) {
      const into = new Uint8Array(length);
      const expected = large.subarray(at, at + length);
      expect(file.read(into, at)).toBe(expected.length);
      expect(Buffer.compare(into.subarray(0, expected.length), expected)).toBe(0);
    }
    file.close();
    expect(() => storage.open(below("P", "a", "no.hop"))).toThrow(FormatError);
  }, 60_000);
});

describe("an object store", () => {
  it("lists more than a page, replaces and removes", async () => {
    const { storage, root: top } = inStore("many");
    const names = Array.from({ length: 1100 }, (_, i) => `${i}`.padStart(5, "0"));
    for (let at = 0; at < names.length; at += 50)
      await Promise.all(
        names.slice(at, at + 50).map((name) => storage.put(`${top}/${name}`, bytes(1), true)),
      );
    expect(storage.names(top)).toEqual(names);
    const before = await storage.version(`${top}/00000`);
    await storage.put(`${top}/00000`, bytes(9), true);
    expect(await storage.version(`${top}/00000`)).not.toBe(before);
    expect(await storage.get(`${top}/00000`)).toEqual(bytes(9));
    await storage.remove(`${top}/00000`);
    expect(await storage.get(`${top}/00000`)).toBeNull();
    expect(await storage.version(`${top}/00000`)).toBeNull();
  }, 60_000);

  it("names a wrong key, a bucket that is missing, and a store that is away, in one line", () => {
    const check = (change: object, expected: RegExp) => {
      const storage = new ObjectStorage({ ...server.place("records"), ...change });
      open.push(storage);
      expect(() => storage.check()).toThrow(expected);
    };
    check({ accessKey: "nobody" }, /^s3:\/\/records at http:\S+: wrong credentials \(InvalidAccessKeyId\)$/);
    check({ bucket: "missing" }, /^s3:\/\/missing at \S+: no bucket 'missing'$/);
    check(
      { endpoint: "http://127.0.0.1:9" },
      /^object store at http:\/\/127\.0\.0\.1:9 refuses the connection$/,
    );
    expect(() => readObjectPlace("s3://records", {}, {})).toThrow(/^s3:\/\/records: no credentials$/);
    expect(() => readObjectPlace("s3:/records", {}, {})).toThrow(/names no bucket$/);
  });

  it("gets requests signed as in the examples that Amazon has published", () => {
    const secretKey = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
    const place = { region: "us-east-1", accessKey: "AKIAIOSFODNN7EXAMPLE", secretKey };
    const digest = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    const stamp = "20130524T000000Z";
    const sign = (path: string, query: string, more: Record<string, string>) => {
      const host = "examplebucket.s3.amazonaws.com";
      const headers = { host, "x-amz-content-sha256": digest, "x-amz-date": stamp, ...more };
      return authorization(place, { method: "GET", path, query, headers, digest, stamp });
    };
    expect(sign("/test.txt", "", { range: "bytes=0-9" })).toBe(
      "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
    );
    expect(sign("/", "max-keys=2&prefix=J", {})).toContain(
      "Signature=34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
    );
    const whole = { ...place, endpoint: "https://s3.example", bucket: "b", prefix: "", sessionToken: null };
    const { url } = signed(whole, { method: "GET", key: "a b/\u00fc%2E", query: { z: "1/2", a: "'" } });
    expect(url).toBe("https://s3.example/b/a%20b/%C3%BC%252E?a=%27&z=1%2F2");
  });
});
