/**
 * An S3-compatible server for a test (s3rver, a development package): a process on loopback, on a free port, in its own directory. It has keys, but does not
 * check signatures.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { ObjectPlace } from "../../src/archive/objects/object-place.ts";
import { freePorts } from "./clickhouse-server.ts";

/** The only keys it accepts. */
export const OBJECT_KEYS = { AWS_ACCESS_KEY_ID: "S3RVER", AWS_SECRET_ACCESS_KEY: "S3RVER" };

export class ObjectServer {
  readonly folder: string;
  readonly endpoint: string;
  readonly #process: ChildProcess;

  private constructor(folder: string, process: ChildProcess, endpoint: string) {
    this.folder = folder;
    this.#process = process;
    this.endpoint = endpoint;
  }

  /** Starts a separate process: reading blocks, so a server in the same thread would be blocked too. */
  static async start(...buckets: string[]): Promise<ObjectServer> {
    const folder = mkdtempSync(join(tmpdir(), "hoptime-objects-"));
    const [port = 0] = await freePorts(1);
    const program = fileURLToPath(new URL("./object-server-program.mjs", import.meta.url));
    const child = spawn(
      process.execPath,
      // Needed for the cipher of its tokens.
      ["--openssl-legacy-provider", program, folder, `${port}`, ...buckets],
      { stdio: ["ignore", "ignore", "inherit"] },
    );
    const endpoint = `http://127.0.0.1:${port}`;
    for (let i = 0; i < 600; i++) {
      const isUp = await fetch(endpoint).then(
        () => true,
        () => false,
      );
      if (isUp) return new ObjectServer(folder, child, endpoint);
      if (child.exitCode !== null) break;
      await sleep(50);
    }
    throw new Error("s3rver does not answer");
  }

  place(bucket: string, prefix = ""): ObjectPlace {
    const keys = { accessKey: "S3RVER", secretKey: "S3RVER", sessionToken: null };
    return { endpoint: this.endpoint, region: "us-east-1", bucket, prefix, ...keys };
  }

  async close(): Promise<void> {
    const ended = once(this.#process, "exit");
    this.#process.kill("SIGKILL");
    await ended;
    rmSync(this.folder, { recursive: true, force: true });
  }
}
