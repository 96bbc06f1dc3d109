/** Bits per packet of packet stores, by purpose, over many epochs. */
export class PacketCosts {
  packets = 0;
  readonly #bytes = new Map<string, number>();

  add(costs: Readonly<Record<string, number>>, packets: number): void {
    this.packets += packets;
    for (const [name, bytes] of Object.entries(costs))
      this.#bytes.set(name, (this.#bytes.get(name) ?? 0) + bytes);
  }

  /** Returns "15.9 bit per packet: 6.1 store, 4.1 check, 5.6 flows, 0.1 sums", or null without packets. */
  text(): string | null {
    if (this.packets === 0) return null;
    const bits = (bytes: number) => ((8 * bytes) / this.packets).toFixed(1);
    const parts = [...this.#bytes].filter(([, bytes]) => bytes > 0);
    const all = parts.reduce((sum, [, bytes]) => sum + bytes, 0);
    return `${bits(all)} bit per packet: ${parts.map(([name, bytes]) => `${bits(bytes)} ${name}`).join(", ")}`;
  }
}
