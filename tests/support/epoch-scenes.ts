/**
 * Traffic of two hosts across a router with an overflowing queue, for tests of epochs: what host a sends and host b answers (`buildDualRouter(lab, 95)`), and
 * the queue between them. Each packet has its own buffer; otherwise the packets of one event-loop turn would be equal and fall into the same cell.
 */
import { DUAL_RECEIVER } from "./dual-router.ts";

export interface EpochScene {
  name: string;
  drainMbit: number;
  limitKb: number;
  /** Programs for `node -e` at a and at b; the receiver prints a line when ready. */
  sender: string;
  receiver: string;
}

/**
 * UDP over IPv4 and IPv6 at `perMs` packets per millisecond (an expression of `t` in ms), a burst of 70 packets every 700 ms, which exceeds the queue however
 * slow the machine is, and TCP.
 */
const bursts = (perMs: string) => `
  const net = require("node:net"), dgram = require("node:dgram");
  const [u4, u6] = [dgram.createSocket("udp4"), dgram.createSocket("udp6")];
  const payload = Buffer.alloc(700), start = performance.now();
  let owed = 0, before = start, sent = 0, burst = 0;
  const tcp = net.connect(5000, "10.95.2.1");
  tcp.on("error", () => {});
  setInterval(() => {
    const now = performance.now(), t = now - start;
    owed = Math.min(40, owed + (now - before) * (${perMs}));
    before = now;
    if (Math.floor(t / 700) > burst) [burst, owed] = [Math.floor(t / 700), 70];
    for (; owed >= 1; owed--) {
      payload.writeUInt32BE(sent++, 0);
      if (sent % 3 === 0) u6.send(Buffer.from(payload), 9000, "fd95:2::1"); else u4.send(Buffer.from(payload), 9000, "10.95.2.1");
    }
    if (tcp.writableLength < 20000 && sent % 2 === 0) tcp.write(payload);
  }, 2);`;

/** Four bulk transfers, web pages, calls, and large datagrams in waves: many flows of very different sizes. b requests the web pages. */
const BUSY_SENDER = `
  const net = require("node:net"), dgram = require("node:dgram"), http = require("node:http");
  const [u4, u6] = [dgram.createSocket("udp4"), dgram.createSocket("udp6")];
  for (const to of ["10.95.2.1", "fd95:2::1", "10.95.2.1", "fd95:2::1"]) {
    const tcp = net.connect(5000, to);
    const fill = () => { while (tcp.write(Buffer.alloc(16384))); };
    tcp.on("error", () => {}).on("drain", fill).on("connect", fill);
  }
  const page = Buffer.alloc(60000, 97);
  http.createServer((q, s) => s.end(page.subarray(0, 500 + (Number(q.url.slice(1)) * 7919) % 24000))).listen(8080, "::");
  const start = performance.now();
  let owed = 0, before = start, sent = 0, calls = 0;
  setInterval(() => {
    const now = performance.now(), t = now - start;
    owed = Math.min(60, owed + (now - before) * (t % 900 < 300 ? 0.8 : 0.2 + 0.1 * Math.sin(t / 2500)));
    for (; owed >= 1; owed--) {
      const payload = Buffer.alloc(200 + (sent * 389) % 1000);
      payload.writeUInt32BE(sent++, 0);
      if (sent % 3 === 0) u6.send(payload, 9000, "fd95:2::1"); else u4.send(payload, 9000, "10.95.2.1");
    }
    // Six calls, a packet each 20 ms.
    for (; calls < 6 * t / 20; calls++) {
      const payload = Buffer.alloc(172);
      payload.writeUInt32BE(calls, 0);
      u4.send(payload, 16000 + (calls % 6), "10.95.2.1");
    }
    before = now;
  }, 2);`;

const BUSY_RECEIVER = `
  const net = require("node:net"), dgram = require("node:dgram"), http = require("node:http");
  for (let i = 0; i < 6; i++) dgram.createSocket("udp4").bind(16000 + i);
  net.createServer((s) => s.on("error", () => {}).resume()).listen(5000, "::", () => {
    dgram.createSocket("udp4").bind(9000); dgram.createSocket({ type: "udp6", ipv6Only: true }).bind(9000, () => console.log("ready"));
  });
  let asked = 0;
  const ask = (host) => http.get({ host, port: 8080, path: "/" + asked++, agent: false, timeout: 3000 }, (r) => r.on("error", () => {}).resume())
    .on("error", () => {}).on("timeout", function () { this.destroy(); });
  setTimeout(() => setInterval(() => ask(asked % 2 ? "10.95.1.1" : "fd95:1::1"), 80), 500);`;

/** The last scene runs only with HOPTIME_FULL=1. */
const SCENES: readonly EpochScene[] = [
  {
    name: "bursts that the queue takes long to drain",
    ...{
      drainMbit: 8,
      limitKb: 32,
      sender: bursts("t % 700 < 200 ? 0.8 : 0.35 + 0.2 * Math.sin(t / 3000)"),
      receiver: DUAL_RECEIVER,
    },
  },
  {
    name: "bulk transfers, web pages, calls and waves of datagrams",
    ...{ drainMbit: 14, limitKb: 64, sender: BUSY_SENDER, receiver: BUSY_RECEIVER },
  },
  {
    name: "more than the queue drains - a tenth is lost",
    ...{
      drainMbit: 8,
      limitKb: 32,
      sender: bursts("t % 700 < 200 ? 1.8 : 0.85 + 0.3 * Math.sin(t / 3000)"),
      receiver: DUAL_RECEIVER,
    },
  },
];

export const EPOCH_SCENES = process.env["HOPTIME_FULL"] ? SCENES : SCENES.slice(0, 2);
