/**
 * Certificates for a test: an authority, and certificates that it signs for servers on loopback and for clients. Made by openssl; null if it is not installed.
 */
import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

export const NO_OPENSSL =
  spawnSync("openssl", ["version"]).status === 0 ? null : "openssl is not installed (apt install openssl)";

export interface Certificate {
  certificateFile: string;
  keyFile: string;
  certificate: string;
  key: string;
}

export class CertificateAuthority {
  readonly own: Certificate;
  readonly #folder: string;

  constructor(folder: string, name: string) {
    mkdirSync(folder, { recursive: true });
    this.#folder = folder;
    this.own = this.#make(name, []);
  }

  /** Signs a certificate for a server on 127.0.0.1, or for a client. */
  sign(name: string): Certificate {
    return this.#make(name, ["-CA", this.own.certificateFile, "-CAkey", this.own.keyFile]);
  }

  #make(name: string, signer: readonly string[]): Certificate {
    const certificateFile = join(this.#folder, `${name}.pem`);
    const keyFile = join(this.#folder, `${name}.key`);
    const use =
      signer.length === 0
        ? ["-addext", "keyUsage=keyCertSign"]
        : ["-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost", "-addext", "basicConstraints=CA:FALSE"];
    execFileSync(
      "openssl",
      [
        ...["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"],
        ...["-days", "1", "-subj", `/CN=${name}`, ...use, ...signer],
        ...["-keyout", keyFile, "-out", certificateFile],
      ],
      { stdio: "ignore" },
    );
    const [certificate, key] = [readFileSync(certificateFile, "utf8"), readFileSync(keyFile, "utf8")];
    return { certificateFile, keyFile, certificate, key };
  }
}
