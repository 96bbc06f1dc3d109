/** Cases in which tshark's result differs from the desired one, with reasons; by content if possible, otherwise by file name. */
import { basename } from "node:path";
import type { Exception } from "./tshark-matrix.ts";

const inFiles = (names: string[]) => (file: string) => names.includes(basename(file));

const BIG_TCP = /^bigtcp-/;
const SOURCE_ROUTED = inFiles(["ipv4-options.pcap"]);
const MALFORMED_EXTENSIONS = inFiles([
  "hoobr_rt6_print.pcap",
  "ipv6_frag6_negative_len.pcap",
  "ipv6_missing_jumbo_payload_option.pcap",
  "ipv6-mobility-dst-opts.pcap",
  "ipv6-too-long-jumbo.pcap",
]);
const HEADER_CUT = inFiles(["ipv4-internally-truncated-header.pcap", "ip4-ihl-15.pcap"]);
const SLIP = inFiles(["cve2015-0261-crash.pcap", "cve2015-0261-ipv6.pcap", "icmp6_nodeinfo_oobr.pcap"]);
const BAD_FRACTION = inFiles(["timestamp_invalid_micro.pcap", "pcap-usec-out-of-range.pcap"]);

export const EXCEPTIONS: readonly Exception[] = [
  {
    reason: "no timestamp (simple packet block), or one past the year 2262: counted, not used",
    holds: (d) => d.kind === "missed" && d.ours === "noTimestamp",
  },
  {
    reason: "tshark does not read this link type and stops",
    holds: (d) => d.kind === "frames" && /unknown or unsupported/.test(d.complaint),
  },
  {
    reason: "snoop and zstd are not read; the message says how to convert",
    holds: (d) => d.kind === "open" && /snoop capture|zstd-compressed/.test(d.ours),
  },
  {
    reason: "BIG TCP: a length of 0 for more than 64 KiB, which this tshark takes for a malformed packet",
    holds: (d) => BIG_TCP.test(basename(d.file)),
  },
  {
    reason: "source routing: tshark shows the last stop as destination, we what the header says",
    holds: (d) => d.kind === "address" && SOURCE_ROUTED(d.file),
  },
  {
    // Default cover, 128 bytes: with fewer than three extension headers, the ports of a generated frame are within it.
    reason: "ports behind more extension headers than the digest covers are no part of a flow key",
    holds: (d) =>
      d.kind === "ports" &&
      basename(d.file) === "random.pcapng" &&
      d.ours.endsWith("ports null null") &&
      (d.tshark?.protocols.filter((token) => token.startsWith("ipv6.")).length ?? 0) >= 3,
  },
  {
    reason: "malformed IPv6 extension headers, where tshark stops or guesses",
    holds: (d) => (d.kind === "protocol" || d.kind === "ports") && MALFORMED_EXTENSIONS(d.file),
  },
  {
    reason: "an IP total length below the header length: counted as bad, tshark shows its addresses",
    holds: (d) =>
      d.kind === "missed" && d.ours === "badIp" && basename(d.file) === "mpls-6in6-broken.pcap.gz",
  },
  {
    reason:
      "IP options that are not captured or not there: the addresses are, and are used; tshark shows none",
    holds: (d) => d.kind === "extra" && HEADER_CUT(d.file),
  },
  {
    reason: "SLIP, which this tshark does not decode (tcpdump does, and agrees with us)",
    holds: (d) => d.kind === "extra" && d.tshark?.protocols.join() === "data" && SLIP(d.file),
  },
  {
    reason: "a link type of IPv6 only that carries IPv4: the header says what it is",
    holds: (d) => d.kind === "extra" && basename(d.file) === "LINKTYPE_IPV6_invalid.pcap",
  },
  {
    reason: "microseconds above a million: we add them, tshark wraps them at 32 bits",
    holds: (d) => d.kind === "time" && BAD_FRACTION(d.file),
  },
  {
    reason:
      "picoseconds: this tshark gets their fraction wrong (src/capture/reader.test.ts checks ours by arithmetic)",
    holds: (d) => d.kind === "time" && basename(d.file) === "ng-tsresol-pico-12.pcapng",
  },
  {
    reason: "the first ATM cell alone: tshark takes its end for an AAL5 trailer and cuts the packet there",
    holds: (d) =>
      (d.kind === "extra" || d.kind === "ports") && d.tshark?.protocols.slice(0, 2).join() === "erf,atm",
  },
  {
    reason: "the capture card's messages about itself are no packets",
    holds: (d) => d.kind === "frames" && basename(d.file) === "provenance.erf",
  },
  {
    reason: "a packet of an interface that was never described: counted, tshark stops there",
    holds: (d) => d.kind === "frames" && /is not less than section interface count/.test(d.complaint),
  },
  {
    reason: "PPP with a direction byte: tshark does not count the byte as part of the frame",
    holds: (d) =>
      d.kind === "length" && d.tshark?.protocols[0] === "ppp" && Number(d.ours) === Number(d.theirs) + 1,
  },
  {
    reason: "a mobility header with something behind it: tshark does not look there",
    holds: (d) => d.kind === "protocol" && d.tshark?.protocols.includes("mipv6") === true,
  },
  {
    reason:
      "an 802.3 length (LLC) behind an 802.1ad or backbone tag, which tshark takes for an unknown EtherType",
    holds: (d) =>
      d.kind === "extra" && /ieee8021a[dh]:ethertype:data$/.test(d.tshark?.protocols.join(":") ?? ""),
  },
  {
    reason: "GTP-U around an IPv4 header of 60 bytes, which tshark takes for PPP",
    holds: (d) => d.inner && d.kind === "address" && d.tshark?.protocols.at(-1) === "gtp",
  },
];
