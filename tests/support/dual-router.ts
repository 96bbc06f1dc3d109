/** Host a, router r, host b, over IPv4 and IPv6: 10.NET.1.1 and fdNET:1::1 at a, 10.NET.2.1 and fdNET:2::1 at b; r's interfaces are `in` and `out`. */
import type { NetworkLab } from "./namespaces.ts";

/** Receives TCP at port 5000 and UDP at 9000 over IPv4 and IPv6; prints a line when ready. For `node -e` at b. */
export const DUAL_RECEIVER = `
  const net = require("node:net"), dgram = require("node:dgram");
  net.createServer((s) => s.resume()).listen(5000, "::", () => {
    dgram.createSocket("udp4").bind(9000); dgram.createSocket({ type: "udp6", ipv6Only: true }).bind(9000, () => console.log("ready"));
  });`;

export function buildDualRouter(lab: NetworkLab, net: number): void {
  lab.addHost("a");
  lab.addHost("r", { forwards: true });
  lab.addHost("b");
  lab.join(["a", "e0", `10.${net}.1.1/24`], ["r", "in", `10.${net}.1.254/24`]);
  lab.join(["r", "out", `10.${net}.2.254/24`], ["b", "e0", `10.${net}.2.1/24`]);
  lab.run("r", "sysctl", "-qw", "net.ipv6.conf.all.forwarding=1");
  for (const [host, device, address] of [
    ["a", "e0", `fd${net}:1::1/64`],
    ["r", "in", `fd${net}:1::ff/64`],
    ["r", "out", `fd${net}:2::ff/64`],
    ["b", "e0", `fd${net}:2::1/64`],
  ] as const)
    lab.run(host, "ip", "addr", "add", address, "dev", device, "nodad");
  lab.route("a", `10.${net}.0.0/16`, `10.${net}.1.254`);
  lab.route("b", `10.${net}.0.0/16`, `10.${net}.2.254`);
  lab.route("a", `fd${net}::/16`, `fd${net}:1::ff`);
  lab.route("b", `fd${net}::/16`, `fd${net}:2::ff`);
}
