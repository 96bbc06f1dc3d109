import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { hostileFrame, type LinkFrame, validFrame } from "../../tests/support/arbitrary-frames.ts";
import { decodeTwin, type TwinOptions } from "../../tests/support/decode-twin.ts";
import { FrameDecoder } from "../../tests/support/frame-decoder.ts";
import * as p from "../../tests/support/packets.ts";
import { rounds } from "../../tests/support/rounds.ts";
import { FLAG } from "./batch.ts";

const decoder = new FrameDecoder();

/** The kernel must agree with the TypeScript twin, whatever bytes follow the frame in memory. */
function agree({ link, frame }: LinkFrame, wire: number, options: TwinOptions): void {
  const expected = decodeTwin(link, frame, wire, options);
  expect(decoder.decode(link, frame, wire, options, 0xff)).toEqual(expected);
  expect(decoder.decode(link, frame, wire, options, 0x00)).toEqual(expected);
}

const options = fc.record({
  cover: fc.constantFrom(20, 40, 41, 60, 64, 77, 128, 1500, 65_535),
  inner: fc.boolean(),
  seed: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
});

describe("the decode kernel and its twin agree", () => {
  test("on valid frames of every link type", () => {
    fc.assert(
      fc.property(validFrame, fc.nat({ max: 2000 }), options, (f, more, o) =>
        agree(f, f.frame.length + more, o),
      ),
      { seed: 1, numRuns: rounds(2000, 4000) },
    );
  });

  test("on valid frames cut at every length", () => {
    fc.assert(
      fc.property(validFrame, options, (f, o) => {
        for (let n = 0; n <= Math.min(f.frame.length, 200); n++)
          agree({ link: f.link, frame: f.frame.subarray(0, n) }, f.frame.length, o);
      }),
      { seed: 2, numRuns: 120 },
    );
  });

  test("on frames with overwritten bytes and lying lengths", () => {
    const wire = fc.oneof(fc.nat({ max: 300 }), fc.constantFrom(0, 13, 14, 34, 65_535, 0xffff_ffff));
    fc.assert(fc.property(hostileFrame, wire, options, agree), { seed: 3, numRuns: rounds(6000, 12_000) });
  });

  test("on noise, for every link type number below 300", () => {
    const noise = fc.tuple(fc.nat({ max: 300 }), fc.uint8Array({ maxLength: 120 }));
    const property = fc.property(noise, options, ([link, frame], o) =>
      agree({ link, frame }, frame.length, o),
    );
    fc.assert(property, { seed: 4, numRuns: rounds(3000, 6000) });
  });
});

test("the generator of valid frames makes frames that decode", () => {
  // Otherwise the properties above would mostly compare reasons for giving up. Frames that stay undecoded are fragments of tunnels, and MPLS over unusual
  // protocols.
  const samples = fc.sample(validFrame, { seed: 5, numRuns: 2000 });
  const decoded = samples.filter(({ link, frame }) => decodeTwin(link, frame, frame.length).row).length;
  expect(decoded / samples.length).toBeGreaterThan(0.9);
});

describe("tags and nesting", () => {
  const ip = p.stack([p.ipv4({ proto: 17 }), p.udp()], new Uint8Array(10));

  test("a hundred VLAN tags are skipped, the outermost is kept", () => {
    const tags = Array.from({ length: 100 }, (_, i) => p.vlan(i + 1, i === 99 ? 0x0800 : 0x8100));
    const frame = p.stack([p.ethernet(0x88a8), ...tags], ip);
    const { row } = decoder.decode(1, frame, frame.length);
    expect(row).toMatchObject({ vlan: 1, src: "10.1.2.3", dport: 53 });
  });

  test("headers that nest without end are given up, not followed into a deep stack", () => {
    // Nested up to the longest frame a capture may hold: PPPoE in a pseudowire in MPLS in PPP, pseudowires alone, backbone tags alone.
    const rounds: [number, p.Layer[]][] = [
      [0x8864, [p.pppoe(1), p.ppp(0x281), p.mpls(1), p.prefix(0, 0, 0, 0), p.ethernet(0x8864)]],
      [0x8847, [p.mpls(1), p.prefix(0, 0, 0, 0), p.ethernet(0x8847)]],
      [0x88e7, [p.prefix(0, 0, 0, 1), p.ethernet(0x88e7)]],
    ];
    for (const [type, layers] of rounds) {
      const round = p.stack(layers);
      const frame = p.stack(
        [p.ethernet(type)],
        Buffer.concat(new Array(Math.floor(262_000 / round.length)).fill(round)),
      );
      expect(decoder.decode(1, frame, frame.length)).toEqual({ reason: "tooDeep" });
    }
  });

  test("a tunnel in a tunnel in a tunnel, forty deep: sixteen are followed", () => {
    let frame: Uint8Array = ip;
    for (let i = 0; i < 40; i++) frame = p.stack([p.ipv4({ proto: 4, id: i })], frame);
    const { row } = decoder.decode(101, frame, frame.length, { inner: true });
    expect(row).toMatchObject({ proto: 4, ipid: 40 - 1 - 16 });
  });

  test("a VLAN tag inside a tunnel that cannot be read does not become the outer packet's", () => {
    const frame = p.stack([
      p.ethernet(0x0800),
      p.ipv4({ proto: 17 }),
      p.udp({ dport: 4789 }),
      p.vxlan(1),
      p.ethernet(0x8100),
      p.vlan(77, 0x0806),
    ]);
    expect(decoder.decode(1, frame, frame.length, { inner: true }).row).toMatchObject({
      vlan: null,
      dport: 4789,
    });
  });
});

describe("lengths that lie", () => {
  const udp4 = (total?: number) =>
    p.stack(
      [p.ethernet(0x0800), p.ipv4({ proto: 17, ...(total === undefined ? {} : { total }) }), p.udp()],
      new Uint8Array(50),
    );

  test("a packet whole on the wire is not called cut because its header claims more", () => {
    const frame = udp4(65_535);
    expect(decoder.decode(1, frame, frame.length).row!.flags & FLAG.short).toBe(0);
  });

  test("a packet cut by the snap length is called cut", () => {
    const frame = udp4();
    expect(decoder.decode(1, frame.subarray(0, 60), frame.length).row!.flags & FLAG.short).toBe(FLAG.short);
  });

  test("a length on the wire below the captured one does not make the packet vanish", () => {
    const frame = udp4(0);
    expect(decoder.decode(1, frame, 0).row).toMatchObject({ dport: 53 });
    expect(decoder.decode(1, frame, 5).row).toEqual(decoder.decode(1, frame, frame.length).row);
  });

  test("a total length of zero (segmentation offload) means the rest of the frame", () => {
    const frame = udp4(0);
    expect(decoder.decode(1, frame, frame.length).row).toMatchObject({ sport: 1024, dport: 53 });
  });

  test("the longest length on the wire that can be claimed does not wrap around", () => {
    const inside = p.stack([p.ipv4({ proto: 17 }), p.udp()]);
    const frame = p.stack([p.ipv4({ proto: 4, total: 0 })], inside);
    expect(decoder.decode(101, frame, 0xffff_ffff, { inner: true }).row).toMatchObject({ dport: 53 });
  });

  test("bytes past the IP length are no ports, whatever they are", () => {
    for (const total of [20, 21, 23]) {
      const { row } = decoder.decode(1, udp4(total), 92);
      expect(row).toMatchObject({ sport: null, dport: null });
      expect(row!.flags & FLAG.cutL4).toBe(FLAG.cutL4);
    }
    expect(decoder.decode(1, udp4(24), 92).row).toMatchObject({ sport: 1024, dport: 53 });
    const short6 = p.stack([p.ipv6({ next: 6, payload: 3 }), p.tcp()]);
    expect(decoder.decode(101, short6, short6.length).row).toMatchObject({ sport: null, tcpFlags: 0 });
  });

  test("a total length below the header is no IP packet", () => {
    expect(decoder.decode(1, udp4(19), 92)).toEqual({ reason: "badIp" });
  });
});
