/**
 * Authenticated references (RFC 8762, authenticated mode): their packets carry an HMAC-SHA-256 code, truncated to 16 bytes, that only holders of the key can
 * compute. The receiver verifies it before any tap sees the packet (kernels/rli/hmac.ts); keys are never part of parameters or records.
 */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { reasonOf } from "../base/directory.ts";
import { UsageError } from "../base/errors.ts";
import type { Kernels } from "../base/kernels.ts";
import type { PacketBatch } from "../capture/batch.ts";
import { derivedSource, type Source } from "../capture/source/source.ts";
import { STAMP_PORT } from "./stamp.ts";

/** RFC 2104: shorter keys are not secure. */
const MIN_KEY_BYTES = 16;
const BLOCK_BYTES = 64;

/** A key file contains the raw key, or hexadecimal digits; trailing white space is ignored. */
export function readReferenceKey(path: string): Uint8Array {
  let bytes: Buffer;
  try {
    bytes = readFileSync(path);
  } catch (cause) {
    const why = reasonOf((cause as Error).message);
    throw new UsageError("no-such-file", `${path}: the key cannot be read: ${why}`, undefined, { cause });
  }
  const text = bytes.toString("latin1").trimEnd();
  const key = /^(?:[0-9a-fA-F]{2})+$/.test(text) ? Buffer.from(text, "hex") : Buffer.from(text, "latin1");
  if (key.length < MIN_KEY_BYTES) {
    const hint = "make one with: openssl rand -hex 32";
    throw new UsageError(
      "bad-parameter",
      `${path}: a key of ${key.length} bytes (expected 16 or more)`,
      hint,
    );
  }
  return key;
}

/** Marks the packets of a batch that carry the correct code. */
export class ReferenceVerifier {
  /** Packets on the port without the correct code. */
  wrong = 0;
  readonly #kernels: Kernels;
  readonly #port: number;
  readonly #address: number;

  constructor(kernels: Kernels, key: Uint8Array, port: number = STAMP_PORT) {
    this.#kernels = kernels;
    this.#port = port;
    const short = key.length <= BLOCK_BYTES ? key : createHash("sha256").update(key).digest();
    const at = kernels.alloc(BLOCK_BYTES);
    kernels.u8.set(short, at);
    this.#address = kernels.call.hmacNew(at, short.length) >>> 0;
    kernels.u8.fill(0, at, at + BLOCK_BYTES);
    kernels.free(at);
  }

  verify(batch: PacketBatch): void {
    this.wrong += this.#kernels.call.hmacVerify(this.#address, batch.address, this.#port) >>> 0;
  }

  free(): void {
    this.#kernels.call.hmacFree(this.#address);
  }
}

/** The same packets, with references to these ports verified. */
export function verifiedSource(
  kernels: Kernels,
  source: Source,
  key: Uint8Array,
  ports: Iterable<number>,
): Source {
  const verifiers = Array.from(ports, (port) => new ReferenceVerifier(kernels, key, port));
  return derivedSource(source, {
    async next() {
      const got = await source.next();
      if (got) for (const verifier of verifiers) verifier.verify(got.batch);
      return got;
    },
    close() {
      source.close();
      for (const verifier of verifiers.splice(0)) verifier.free();
    },
  });
}
