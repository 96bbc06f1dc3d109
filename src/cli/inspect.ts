/** `hoptime inspect FILE`. */

import { Command } from "commander";
import { countOf, formatBitRate, formatCount, formatPercent } from "../base/quantity.ts";
import { formatDuration, formatTime } from "../base/time.ts";
import { protocolName } from "../capture/flow/flow-text.ts";
import { type InspectReport, inspectCapture } from "../inspect/inspect.ts";
import { skipText } from "../present/text/skip-text.ts";
import { withFlags } from "./flags.ts";
import { printJson, printText, warn } from "./output.ts";
import { colours, Progress } from "./terminal.ts";

/** Texts for common resolutions; JSON contains them as in the file. */
const RESOLUTIONS: Record<string, string> = { "1e-9 s": "1 ns", "1e-6 s": "1 µs", "1e-3 s": "1 ms" };

export function inspectCommand(): Command {
  return new Command("inspect")
    .description(
      "Describes a capture: interfaces, link types, time span, flows, timestamp precision, and how well its packets can be told apart.",
    )
    .argument(
      "<file>",
      "capture: pcap, pcapng or ERF, plain or gzip; - is standard input, FILE#0 or FILE#eth0 one interface of a capture",
    )
    .option("--filter <expr>", "only packets that match this pcap-filter expression")
    .option("--inner", "use the packet inside GRE, VXLAN, Geneve, IP-in-IP and GTP-U")
    .option("--json", "print the description as JSON (format hoptime.inspect/1)")
    .addHelpText(
      "after",
      `
Examples:
  hoptime inspect capture.pcapng
  hoptime inspect capture.pcapng#1
  hoptime inspect capture.pcap.gz --filter 'udp' --json`,
    )
    .action(async (file: string, flags: { filter?: string; inner?: boolean; json?: boolean }) => {
      const progress = new Progress("reading");
      const report = await inspectCapture({
        file,
        filter: flags.filter,
        inner: flags.inner ?? false,
        onProgress: (done, total, packets) => progress.update(done, total, packets),
      }).finally(() => progress.clear());
      await (flags.json ? printJson(report) : printText(format(report)));
      if (report.partial) {
        warn(`hoptime: ${report.partial}; results cover the part that was read`);
        process.exitCode = 2;
      }
    });
}

/** Returns how to compare the points of a capture with several, by number because names may be ambiguous; null for a single point. */
function betweenPoints(r: InspectReport): string | null {
  const [a, b] = r.points.filter((p) => p.packets > 0);
  if (!a || !b) return null;
  const file = r.file === "standard input" ? "FILE" : r.file;
  const argument = (index: number) => {
    const text = `${file}#${index}`;
    return /^[\w./#@%+=:,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
  };
  return `hoptime compare ${argument(a.index)} ${argument(b.index)}`;
}

function format(r: InspectReport): string {
  const c = colours;
  const lines: string[] = [];
  const row = (name: string, text: string) => lines.push(`${c.bold(name.padEnd(11))}${text}`);
  row("file", `${r.file} (${r.capture}${r.compressed ? ", gzip" : ""})${r.partial ? c.red(" PARTIAL") : ""}`);
  if (r.firstNs !== null && r.durationNs !== null) {
    row("time", `${formatTime(BigInt(r.firstNs), 3)}, ${formatDuration(r.durationNs)}`);
  }
  row(
    "packets",
    `${formatCount(r.packets)} (${formatCount(r.ipPackets)} IP, ${formatCount(r.ipv6Packets)} IPv6, ${formatCount(r.fragments)} fragments), ${formatCount(r.bytes)} bytes on the wire`,
  );
  if (r.rates) {
    row(
      "rate",
      `${countOf(Math.round(r.rates.packetsPerSecond), "packet")}/s, ${formatBitRate(r.rates.bitsPerSecond)}`,
    );
  }
  const skipped = skipText(r.skipped);
  if (skipped !== "") row("not used", skipped);
  if (r.dropped !== null) row("dropped", `${formatCount(r.dropped)} by the capturing side`);
  for (const p of r.points) {
    const name = p.name === null ? "" : ` ${p.name}`;
    row(
      "point",
      `${p.index}${name}: ${p.link}, ${p.snapLength === 0 ? "no snap length" : `snap length ${formatCount(p.snapLength)}`}, timestamps in ${RESOLUTIONS[p.resolution] ?? p.resolution}, ${countOf(p.packets, "IP packet")}`,
    );
  }
  const example = betweenPoints(r);
  if (example !== null) row("compare", `these points: ${example}`);
  row(
    "flows",
    r.flows.fiveTuples === 0
      ? "none"
      : `${countOf(r.flows.fiveTuples, "5-tuple")} between ${countOf(r.flows.hostPairs, "host pair")}; the largest has ${countOf(r.flows.largestPackets, "packet")}, ${formatCount(r.flows.singlePackets)} ${r.flows.singlePackets === 1 ? "has" : "have"} one packet`,
  );
  row(
    "protocols",
    r.protocols
      .slice(0, 6)
      .map((p) => `${protocolName(p.proto)} ${formatCount(p.packets)}`)
      .join(", ") || "none",
  );
  if (r.ipid) {
    row(
      "IPID",
      `${formatPercent(r.ipid.zero, 1)} zero, ${formatPercent(r.ipid.increasing, 1)} increasing within their flow, ${formatPercent(r.ipid.unique, 1)} unique per host pair and protocol`,
    );
  }
  if (r.identity) {
    row(
      "identity",
      `${formatPercent(r.identity.uniqueDigests, 2)} of packets have a digest of their own (first ${r.identity.shortestVisible === null ? r.identity.coverBytes : Math.min(r.identity.coverBytes, r.identity.shortestVisible)} bytes or more of each)`,
    );
  }
  const t = r.timestamps;
  const steps =
    t.resolutionNs === null ? "unknown" : `timestamps in steps of ${formatDuration(t.resolutionNs)}`;
  row(
    "precision",
    `${steps}, ${countOf(t.backward.count, "step")} backward${t.backward.count > 0 ? ` (by up to ${formatDuration(t.backward.largestNs)})` : ""}, ${formatPercent(t.batched.equalShare, 1)} share their timestamp with a neighbour`,
  );
  for (const w of r.warnings) row("warning", withFlags(w));
  return `${lines.join("\n")}\n`;
}
