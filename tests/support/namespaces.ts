/**
 * Real hosts and routers on one machine: network namespaces connected by veth pairs, token-bucket queues, tcpdump on any interface. Needs root, ip, tc and
 * tcpdump; `namespacesMissing()` returns what is missing. `close()` removes everything.
 */
import { type ChildProcess, execFileSync, spawn, spawnSync } from "node:child_process";
import { existsSync, statSync } from "node:fs";

export function namespacesMissing(): string | null {
  if (process.getuid?.() !== 0) return "not root";
  for (const tool of ["ip", "tc", "tcpdump"]) {
    if (spawnSync("sh", ["-c", `command -v ${tool}`]).status !== 0) return `no ${tool}`;
  }
  const probe = `hop${process.pid}probe`;
  if (spawnSync("ip", ["netns", "add", probe]).status !== 0) return "network namespaces cannot be made here";
  const veth = spawnSync("ip", [
    "-n",
    probe,
    "link",
    "add",
    "va",
    "type",
    "veth",
    "peer",
    "name",
    "vb",
  ]).status;
  const tbf =
    veth === 0
      ? spawnSync("tc", [
          "-n",
          probe,
          "qdisc",
          "add",
          "dev",
          "va",
          "root",
          "tbf",
          "rate",
          "1mbit",
          "burst",
          "16kb",
          "limit",
          "64kb",
        ]).status
      : 1;
  spawnSync("ip", ["netns", "del", probe]);
  return veth !== 0 ? "veth pairs cannot be made here" : tbf !== 0 ? "no tbf queue here" : null;
}

const WAIT_MS = 60_000;

/** Waits for a condition instead of a time, because a busy machine takes longer. */
export async function until(holds: () => boolean, what = "condition"): Promise<void> {
  const end = performance.now() + WAIT_MS;
  while (!holds()) {
    if (performance.now() > end) throw new Error(`${what}: not met within ${WAIT_MS / 1000} s`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

export class NetworkLab {
  readonly #names = new Map<string, string>();
  readonly #captures: ChildProcess[] = [];
  readonly #others: ChildProcess[] = [];
  /** Removes the namespaces however the tests end. */
  readonly #onExit = () => this.close();

  constructor() {
    process.on("exit", this.#onExit);
  }

  /** Runs a command on a host. */
  run(host: string, command: string, ...args: string[]): string {
    return execFileSync("ip", ["netns", "exec", this.#name(host), command, ...args], {
      stdio: ["ignore", "pipe", "pipe"],
    }).toString();
  }

  #name(host: string): string {
    const name = this.#names.get(host);
    if (name === undefined) throw new Error(`no host ${host}`);
    return name;
  }

  addHost(host: string, options: { forwards?: boolean } = {}): void {
    const name = `hop${process.pid}${host}`;
    execFileSync("ip", ["netns", "add", name]);
    this.#names.set(host, name);
    this.run(host, "ip", "link", "set", "lo", "up");
    if (options.forwards) this.run(host, "sysctl", "-qw", "net.ipv4.ip_forward=1");
  }

  /** Connects two hosts; each end is [host, interface, address/length]. Offloads are off, so that captures contain the packets as on the wire. */
  join(a: [string, string, string], b: [string, string, string]): void {
    execFileSync("ip", [
      "link",
      "add",
      a[1],
      "netns",
      this.#name(a[0]),
      "type",
      "veth",
      "peer",
      "name",
      b[1],
      "netns",
      this.#name(b[0]),
    ]);
    for (const [host, device, address] of [a, b]) {
      this.run(host, "ip", "addr", "add", address, "dev", device);
      this.run(host, "ip", "link", "set", device, "up");
      spawnSync("ip", [
        "netns",
        "exec",
        this.#name(host),
        "ethtool",
        "-K",
        device,
        "tso",
        "off",
        "gso",
        "off",
        "gro",
        "off",
        "tx",
        "off",
      ]);
    }
  }

  /** Sets offloads of an interface: `offload("a", "e0", "tso", "on")`. */
  offload(host: string, device: string, ...features: string[]): void {
    this.run(host, "ethtool", "-K", device, ...features);
  }

  route(host: string, net: string, via: string): void {
    this.run(host, "ip", "route", "add", net, "via", via);
  }

  /** Adds a token-bucket queue to an interface, or changes its rate. */
  queue(host: string, device: string, rateMbit: number, limitKb = 600): void {
    this.run(
      host,
      "tc",
      "qdisc",
      "replace",
      "dev",
      device,
      "root",
      "tbf",
      "rate",
      `${rateMbit}mbit`,
      "burst",
      "16kb",
      "limit",
      `${limitKb}kb`,
    );
  }

  /** Resolves when this many sockets on the host capture. */
  async captures(host: string, sockets: number): Promise<void> {
    await until(() => this.run(host, "cat", "/proc/net/packet").trim().split("\n").length > sockets);
  }

  /** Resolves when no packet waits in the queue of an interface. */
  async drained(host: string, device: string): Promise<void> {
    await until(() => {
      const [queue] = JSON.parse(this.run(host, "tc", "-s", "-j", "qdisc", "show", "dev", device));
      return queue.backlog === 0;
    });
  }

  /** Captures until `stopCaptures`; the direction is that of tcpdump -Q. Resolves when tcpdump listens. */
  async capture(
    host: string,
    device: string,
    direction: "in" | "out" | "inout",
    file: string,
  ): Promise<void> {
    const child = spawn(
      "ip",
      [
        "netns",
        "exec",
        this.#name(host),
        "tcpdump",
        "-i",
        device,
        "-Q",
        direction,
        "-n",
        "-s",
        "128",
        "-B",
        "8192",
        "-U",
        "--time-stamp-precision=nano",
        "-w",
        file,
      ],
      { stdio: ["ignore", "ignore", "pipe"] },
    );
    this.#captures.push(child);
    await new Promise<void>((resolve, reject) => {
      let text = "";
      child.stderr!.on("data", (chunk) => {
        text += String(chunk);
        if (text.includes("listening on")) resolve();
      });
      child.on("exit", () => reject(new Error(`tcpdump ended: ${text}`)));
    });
  }

  /** Returns the number of packets that the captures dropped. */
  async stopCaptures(): Promise<number> {
    const dropped = await Promise.all(
      this.#captures.splice(0).map(
        (child) =>
          new Promise<number>((resolve) => {
            let text = "";
            child.stderr?.on("data", (chunk) => {
              text += String(chunk);
            });
            child.removeAllListeners("exit");
            child.on("close", () => resolve(Number(/(\d+) packets dropped by kernel/.exec(text)?.[1] ?? 0)));
            child.kill("SIGINT");
          }),
      ),
    );
    return dropped.reduce((sum, n) => sum + n, 0);
  }

  /** Starts a command on a host and leaves it running. */
  start(host: string, command: string, ...args: string[]): ChildProcess {
    const child = spawn("ip", ["netns", "exec", this.#name(host), command, ...args], {
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.#others.push(child);
    return child;
  }

  close(): void {
    for (const child of [...this.#captures, ...this.#others]) child.kill("SIGKILL");
    for (const name of this.#names.values()) spawnSync("ip", ["netns", "del", name]);
    this.#names.clear();
    process.off("exit", this.#onExit);
  }
}

/**
 * Sends numbered UDP packets at even intervals, then exits. For `node -e` on a host. Each packet has its own buffer: packets are sent at the end of the
 * event-loop turn, and those with a shared buffer would be equal.
 */
export function udpSender(
  address: string,
  port: number,
  packetsPerSecond: number,
  bytes: number,
  seconds: number,
): string {
  return `
    const socket = require("node:dgram").createSocket("udp4");
    const payload = Buffer.alloc(${bytes});
    const start = performance.now();
    let sent = 0;
    const timer = setInterval(() => {
      const due = Math.min(${packetsPerSecond * seconds}, (performance.now() - start) * ${packetsPerSecond} / 1000);
      while (sent < due) { payload.writeUInt32BE(sent++, 0); socket.send(Buffer.from(payload), ${port}, "${address}"); }
      if (sent >= ${packetsPerSecond * seconds}) { clearInterval(timer); setTimeout(() => socket.close(), 100); }
    }, 2);`;
}

export function fileHasPackets(file: string): boolean {
  return existsSync(file) && statSync(file).size > 24;
}
