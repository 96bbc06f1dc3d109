/**
 * Connections to servers on this host that can be interrupted: nothing gets through in either direction, and neither side notices, as when a cable is pulled.
 */
import { connect, createServer, type Server, type Socket } from "node:net";

export class CutLine {
  readonly ports: number[] = [];
  readonly #servers: Server[] = [];
  readonly #sockets = new Set<Socket>();
  #isCut = false;

  static async to(ports: readonly number[]): Promise<CutLine> {
    const line = new CutLine();
    for (const port of ports) {
      const server = createServer((near) => line.#join(near, port));
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
      line.#servers.push(server);
      line.ports.push((server.address() as { port: number }).port);
    }
    return line;
  }

  get url(): string {
    return `nats://${this.ports.map((p) => `127.0.0.1:${p}`).join(",")}`;
  }

  cut(): void {
    this.#isCut = true;
    for (const socket of this.#sockets) socket.pause();
  }

  mend(): void {
    this.#isCut = false;
    for (const socket of this.#sockets) socket.resume();
  }

  close(): void {
    for (const socket of this.#sockets) socket.destroy();
    for (const server of this.#servers) server.close();
  }

  #join(near: Socket, port: number): void {
    const far = connect(port, "127.0.0.1");
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      this.#sockets.add(from);
      from.on("data", (bytes: Buffer) => to.write(bytes));
      from.on("error", () => undefined);
      from.on("close", () => {
        this.#sockets.delete(from);
        to.destroy();
      });
      if (this.#isCut) from.pause();
    }
  }
}
