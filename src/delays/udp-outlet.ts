/**
 * Sends packets to one address at once, and counts them by outcome. The socket is not connected: an ICMP error of the far end (nothing need listen there) would
 * make a connected one refuse the next packet. The address is looked up once, so that packets can be handed over without delay.
 */
import { createSocket, type Socket } from "node:dgram";
import { lookup } from "node:dns/promises";
import { setTimeout } from "node:timers/promises";
import { UsageError } from "../base/errors.ts";

export class UdpOutlet {
  sent = 0;
  readonly failed = new Map<string, number>();
  readonly #socket: Socket;
  readonly #port: number;
  readonly #address: string;

  private constructor(address: string, family: number, port: number) {
    this.#address = address;
    this.#port = port;
    this.#socket = createSocket({
      type: family === 6 ? "udp6" : "udp4",
      // Also called for the local address when the socket binds: both are addresses already.
      lookup: (host, _options, done) => done(null, host, family),
    });
    this.#socket.on("error", () => {});
  }

  static async open(to: string, port: number): Promise<UdpOutlet> {
    try {
      const { address, family } = await lookup(to);
      return new UdpOutlet(address, family, port);
    } catch (cause) {
      const message = cause instanceof Error ? cause.message : String(cause);
      throw new UsageError("bad-option", `${to}: ${message}`, "give an IP address that this host can reach", {
        ...{ parameter: "to", value: to, cause },
      });
    }
  }

  send(payload: Buffer): void {
    this.#socket.send(payload, this.#port, this.#address, (error) => {
      if (!error) {
        this.sent++;
        return;
      }
      const code = "code" in error ? String(error.code) : error.message;
      this.failed.set(code, (this.failed.get(code) ?? 0) + 1);
    });
  }

  /** Packets handed over are sent, and counted, before the socket closes. */
  async close(): Promise<void> {
    await setTimeout(20);
    await new Promise<void>((resolve) => this.#socket.close(() => resolve()));
  }
}
