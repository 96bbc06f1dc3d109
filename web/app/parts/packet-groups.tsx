/** Packets by group: the distribution as a bar from min to max with p50, p90 and p99, and a table of the slowest packets. */
import { scaleLog } from "d3-scale";
import { msOf } from "../state/time-range.ts";
import { Heads } from "./heads.tsx";
import { Time } from "./numbers.tsx";
import { countText, delayText, reasonText, shareText } from "./text.ts";

export interface PacketLatency {
  meanNs: number;
  lowNs: number;
  highNs: number;
  minNs: number;
  p50Ns: number;
  p90Ns: number;
  p99Ns: number;
  maxNs: number;
}

interface PacketGroup {
  text: string;
  packets: number;
  matched: number;
  multi: number;
  missing: number;
  coverage: number;
  latency: PacketLatency | null;
  reason?: string;
  worst: { packet: string; timeNs: string; delayNs: number; lowNs: number; highNs: number; guess: boolean }[];
}

/** Format hoptime.packet-answer/1, as far as the page uses it. */
export interface PacketAnswer {
  points: { name: string }[];
  epochs: { refused: { file: string; reason: string }[] };
  packets: number;
  matched: number;
  multi: number;
  missing: number;
  groups: PacketGroup[];
  notes: string[];
}

const WIDTH = 260;

function Distribution({ latency, low, high }: { latency: PacketLatency; low: number; high: number }) {
  const { minNs, p50Ns, p90Ns, p99Ns, maxNs } = latency;
  const x = scaleLog([Math.max(1, low), Math.max(2, high * 1.01)], [2, WIDTH - 2]).clamp(true);
  const at = (ns: number) => x(Math.max(1, ns));
  const text = `min ${delayText(minNs)}, p50 ${delayText(p50Ns)}, p90 ${delayText(p90Ns)}, p99 ${delayText(p99Ns)}, max ${delayText(maxNs)}`;
  return (
    <svg width={WIDTH} height="22" role="img" aria-label={text} class="distribution">
      <title>{text}</title>
      <line x1={at(minNs)} x2={at(maxNs)} y1="11" y2="11" class="whole" />
      <rect x={at(minNs)} width={Math.max(1, at(p50Ns) - at(minNs))} y="6" height="10" class="half" />
      <rect x={at(p50Ns)} width={Math.max(1, at(p90Ns) - at(p50Ns))} y="8" height="6" class="most" />
      <line x1={at(p50Ns)} x2={at(p50Ns)} y1="3" y2="19" class="p50" />
      <line x1={at(p99Ns)} x2={at(p99Ns)} y1="5" y2="17" class="p99" />
    </svg>
  );
}

export function PacketGroups({ answer }: { answer: PacketAnswer }) {
  const known = answer.groups.flatMap((g) => g.latency ?? []);
  const [low, high] = [Math.min(...known.map((l) => l.minNs)), Math.max(...known.map((l) => l.maxNs))];
  const worst = answer.groups
    .flatMap((g) => g.worst.map((w) => ({ ...w, group: g.text })))
    .sort((a, b) => b.delayNs - a.delayNs);
  return (
    <>
      <div class="scroll-x" tabIndex={0} role="region" aria-label="Groups of packets">
        <table class="rows">
          <Heads
            of={[
              ["Packets of"],
              ["Delays, logarithmic (p50 and p99 marked)", "wide-only"],
              ["p50", "number"],
              ["p99", "number"],
              ["Max", "number wide-only"],
              ["Packets", "number"],
              ["Answered", "number wide-only"],
            ]}
          />
          <tbody>
            {answer.groups.map((g) => (
              <tr key={g.text} class="row">
                <th scope="row">{g.text}</th>
                <td class="wide-only">
                  {g.latency ? (
                    <Distribution latency={g.latency} low={low} high={high} />
                  ) : (
                    <span class="muted">{reasonText(g.reason ?? "no answer")}</span>
                  )}
                </td>
                <td class="number">{g.latency ? delayText(g.latency.p50Ns) : "–"}</td>
                <td class="number">{g.latency ? delayText(g.latency.p99Ns) : "–"}</td>
                <td class="number wide-only">{g.latency ? delayText(g.latency.maxNs) : "–"}</td>
                <td class="number">{countText(g.packets)}</td>
                <td class="number wide-only">{shareText(g.coverage)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {worst.length > 0 && (
        <>
          <h2 class="spaced">Slowest packets</h2>
          <div class="scroll-x" tabIndex={0} role="region" aria-label="Slowest packets">
            <table class="small">
              <Heads of={[["Packet"], ["Delay"], ["Between"], ["Time"]]} />
              <tbody>
                {worst.slice(0, 100).map((w) => (
                  <tr key={`${w.group} ${w.packet} ${w.timeNs}`}>
                    <th scope="row">{w.packet}</th>
                    <td>
                      {delayText(w.delayNs)}
                      {w.guess && " (guess)"}
                    </td>
                    <td>
                      {delayText(w.lowNs)} – {delayText(w.highNs)}
                    </td>
                    <td>
                      <Time ms={msOf(w.timeNs)} precise />
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </>
      )}
    </>
  );
}

export function packetRows(answer: PacketAnswer | null): (string | number | null)[][] {
  return [
    ["group", "packet", "time_ns", "delay_ns", "low_ns", "high_ns", "guess"],
    ...(answer?.groups ?? []).flatMap((g) =>
      g.worst.map((w) => [g.text, w.packet, w.timeNs, w.delayNs, w.lowNs, w.highNs, w.guess ? "yes" : "no"]),
    ),
  ];
}
