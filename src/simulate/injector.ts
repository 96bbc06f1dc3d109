/**
 * Packets of our own decided while the traffic passes: RLI's reference packets. The injector stands at the sender, before the first queue,
 * sees every packet there (time, length, key) and may put a packet of its own ahead of it; that packet then takes part in
 * everything behind it.
 */
import type { Kernels } from "../base/kernels.ts";
import { PacketBatch } from "../capture/batch.ts";
import { SIMULATED_FLAG } from "./scenario.ts";
import type { SourceIdentity } from "./source.ts";

export interface Injector {
  /** What is put in; left out: UDP from 192.0.2.1:862 to 192.0.2.2:862 (STAMP), 64 bytes. */
  readonly packet?: InjectedPacket;
  /**
   * Looks at the packets about to pass, in order. For each packet that one of ours goes ahead of, sets `sendNs[row]` to the time of sending,
   * at most the packet's own time (the usual choice) and not before the packet ahead; all others are NaN. `address` is that of `sendNs` in
   * kernel memory, for injectors that are kernels. Called once per batch; the rows of a batch come in order of time.
   */
  inspect(batch: PacketBatch, sendNs: Float64Array, address: number): void;
}

/** What an injector may know when a run begins. */
export interface InjectorContext {
  kernels: Kernels;
  /** Drain rate of the first queue on the path (of all its paths together), bit/s; null where there is none. */
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
        // One of ours ahead of each packet at most.
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
