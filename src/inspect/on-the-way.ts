/** What a capture shows about the path: tunnels, and segments merged before the capture, with the option that helps. */
import { countOf, formatCount } from "../base/quantity.ts";
import { META_HIGH, type PacketBatch } from "../capture/batch.ts";

const UDP = 17;
const TUNNEL_PROTOCOLS = new Map([
  [4, "IP-in-IP"],
  [41, "IPv6-in-IP"],
  [47, "GRE"],
  [97, "EtherIP"],
]);
const TUNNEL_PORTS = new Map([
  [4789, "VXLAN"],
  [8472, "VXLAN"],
  [6081, "Geneve"],
  [2152, "GTP-U"],
]);
/** Longer frames exceed an MTU of 1,500 bytes with tags, or (the second value) an MTU of 9,000. */
const ORDINARY_FRAME = 1600;
const JUMBO_FRAME = 9100;

export class OnTheWay {
  readonly #tunnels = new Map<string, number>();
  #long = 0;
  #longest = 0;

  take({ meta, wireLength, count }: PacketBatch): void {
    for (let i = 0; i < count; i++) {
      const high = meta[2 * i + 1] ?? 0;
      const low = meta[2 * i] ?? 0;
      const proto = high & 0xff;
      const ports = proto === UDP && (high & META_HIGH.ports) !== 0;
      const tunnel = ports
        ? (TUNNEL_PORTS.get(low & 0xffff) ?? (low >>> 16 === 2152 ? "GTP-U" : undefined))
        : TUNNEL_PROTOCOLS.get(proto);
      if (tunnel) this.#tunnels.set(tunnel, (this.#tunnels.get(tunnel) ?? 0) + 1);
      const length = wireLength[i] ?? 0;
      if (length > ORDINARY_FRAME) this.#long++;
      if (length > this.#longest) this.#longest = length;
    }
  }

  tunnels(): { name: string; packets: number }[] {
    return [...this.#tunnels]
      .map(([name, packets]) => ({ name, packets }))
      .sort((a, b) => b.packets - a.packets);
  }

  /** Returns packets that are longer than any frame; null without any. */
  offload(): { packets: number; longest: number } | null {
    return this.#longest > JUMBO_FRAME ? { packets: this.#long, longest: this.#longest } : null;
  }

  warnings(inner: boolean): string[] {
    const tunnels = this.tunnels();
    const merged = this.offload();
    return [
      ...(tunnels.length > 0 && !inner
        ? [
            `${tunnels.map(({ name, packets }) => `${countOf(packets, "packet")} in ${name}`).join(", ")}: ‘inner’ looks inside these tunnels`,
          ]
        : []),
      ...(merged
        ? [
            `${countOf(merged.packets, "packet")} of up to ${formatCount(merged.longest)} bytes: segments were merged beside the capture (GRO, LRO, TSO); compare matches them by their bytes, or capture with ethtool -K IFACE gro off lro off tso off gso off`,
          ]
        : []),
    ];
  }
}
