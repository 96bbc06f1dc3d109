/**
 * Injects packets that depend on the traffic: RLI's reference packets. The injector is at the sender, before the first queue. It sees every packet there (time,
 * length, key) and may insert a packet of its own ahead of it. The inserted packet passes the same queues, delays and losses as the traffic.
 */
import type { Kernels } from "../base/kernels.ts";
import { PacketBatch } from "../capture/batch.ts";
import { SIMULATED_FLAG } from "./scenario.ts";
import type { SourceIdentity } from "./source.ts";

export interface Injector {
  /** The packet to insert; default: UDP from 192.0.2.1:862 to 192.0.2.2:862 (STAMP), 64 bytes. */
  readonly packet?: InjectedPacket;
  /**
   * Looks at the packets about to pass, in order. To insert a packet ahead of a row, it sets `sendNs[row]` to the send time: not after the row's own time (the
   * usual choice is exactly that) and not before the packet ahead; all other rows stay NaN. `address` is the address of `sendNs` in kernel memory, for
   * injectors that are kernels. Called once per batch; the rows of a batch are in time order.
   */
  inspect(batch: PacketBatch, sendNs: Float64Array, address: number): void;
}

/** What an injector knows when a run begins. */
export interface InjectorContext {
  kernels: Kernels;
  /** Drain rate of the first queue on the path (the sum if it has parallel paths) in bit/s; null without a queue. */
  rateBps: number | null;
}

export interface InjectedPacket {
  wireLength?: number;
  source?: number;
  target?: number;
  sourcePort?: number;
  targetPort?: number;
  dscp?: number;
}

const NET1 = 0xc000_0201;
const NET2 = 0xc000_0202;

export async function* inject(
  kernels: Kernels,
  batches: AsyncIterable<PacketBatch>,
  injector: Injector,
  identity: SourceIdentity,
): AsyncGenerator<PacketBatch> {
  let out: PacketBatch | null = null;
  let times = 0;
  const p = injector.packet ?? {};
  const meta =
    (1n << 60n) |
    (BigInt(p.dscp ?? 0) << 40n) |
    (17n << 32n) |
    (BigInt(p.sourcePort ?? 862) << 16n) |
    BigInt(p.targetPort ?? 862);
  const addr = (BigInt(p.source ?? NET1) << 32n) | BigInt(p.target ?? NET2);
  const length = p.wireLength ?? 64;
  const packet =
    kernels.call.simInjectedNew(BigInt(identity.seed), meta, addr, length, SIMULATED_FLAG.reference) >>> 0;
  let number = BigInt(identity.kind) << 56n;
  try {
    for await (const batch of batches) {
      if (!out) {
        // At most one inserted packet per packet.
        out = new PacketBatch(kernels, 2 * batch.capacity);
        times = kernels.alloc(8 * batch.capacity);
      }
      const view = kernels.f64.subarray(times >>> 3, (times >>> 3) + batch.count);
      view.fill(Number.NaN);
      injector.inspect(batch, view, times);
      const injected = kernels.call.simInject(batch.address, times, out.address, number, packet);
      number += BigInt(injected >>> 0);
      yield out;
    }
  } finally {
    out?.free();
    if (times) kernels.free(times);
    kernels.free(packet);
  }
}
