/**
 * tshark as a second decoder of a capture: one plain row per frame. It runs without protocols above L4 and without reassembly, so that its result for a frame
 * depends only on that frame, as in our decoder.
 */
import { execFile, execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

export interface Endpoint {
  version: 4 | 6;
  src: string;
  dst: string;
  proto: number | null;
  sport: number | null;
  dport: number | null;
}

export interface TsharkFrame {
  number: number;
  /** As printed: seconds with nine decimals; empty if the frame has no timestamp. */
  time: string;
  length: number;
  captured: number;
  protocols: string[];
  /** The outermost IP header, and the innermost one inside tunnels supported by `inner`; null if there is none. */
  outer: Endpoint | null;
  inner: Endpoint | null;
}

/** The enabled protocols: links, tags, tunnels supported by `inner`, IP and L4. */
const KEPT = new Set(
  (
    "frame eth ethertype vlan ieee8021ad ieee8021ah ip ipv6 tcp udp udplite icmp icmpv6 sctp dccp igmp mpls pppoes ppp ppp_hdlc " +
    "sll null raw gre vxlan geneve gtp ipv6.hopopts ipv6.routing ipv6.fraghdr ipv6.dstopts ipv6.routing.type ipv6.routing.srh " +
    "ipv6.routing.mipv6 ipv6.routing.rpl ipv6.routing.rh0 ipv6.routing.crh ah mipv6 hip shim6 chdlc " +
    "llc fddi erspan pwethcw pwmplscw erf atm fr pflog enc snap mpls-echo pw_eth_cw pwach loop user_dlt data slip fp_mpacket " +
    "nflog ipnet ipoib infiniband fpp ppi atm_lane ipoatm cipoatm exported_pdu pwethheuristic pwethnocw pwath etherip"
  ).split(" "),
);

const FIELDS = [
  "frame.number",
  "frame.time_epoch",
  "frame.len",
  "frame.cap_len",
  "frame.protocols",
  "ip.src",
  "ip.dst",
  "ip.proto",
  "ipv6.src",
  "ipv6.dst",
  "ipv6.nxt",
  "ipv6.hopopts.nxt",
  "ipv6.routing.nxt",
  "ipv6.fraghdr.nxt",
  "ipv6.dstopts.nxt",
  "ah.next_header",
  "shim6.nxt",
  "tcp.srcport",
  "tcp.dstport",
  "udp.srcport",
  "udp.dstport",
  "sctp.srcport",
  "sctp.dstport",
  "dccp.srcport",
  "dccp.dstport",
] as const;
type Field = (typeof FIELDS)[number];

export function tsharkVersion(): string | null {
  try {
    const text = execFileSync("tshark", ["--version"], {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
    });
    return /TShark.*?(\d+\.\d+\.\d+)/.exec(text)?.[1] ?? "unknown";
  } catch {
    return null;
  }
}

/** Makes a configuration directory that disables every protocol above L4; once per test run. */
export function tsharkConfig(scratch: string): string {
  const folder = join(scratch, "wireshark");
  mkdirSync(folder, { recursive: true });
  const listed = execFileSync("tshark", ["-G", "protocols"], {
    encoding: "utf8",
    stdio: ["ignore", "pipe", "ignore"],
    maxBuffer: 1 << 26,
  });
  const names = listed
    .split("\n")
    .map((line) => line.split("\t")[2] ?? "")
    .filter((name) => name !== "" && !KEPT.has(name));
  writeFileSync(join(folder, "disabled_protos"), `${names.join("\n")}\n`);
  return folder;
}

const QUIET = [
  "ip.defragment:FALSE",
  "ipv6.defragment:FALSE",
  "tcp.desegment_tcp_streams:FALSE",
  "sctp.reassembly:FALSE",
  "ip.tso_support:TRUE",
  // Raw ATM cells: the first one of each frame was captured.
  "erf.rawcell_first:TRUE",
  "erf.aal5_type:llc",
];
const DECODE_AS = ["udp.port==8472,vxlan"];

export function tsharkText(file: string, config: string): Promise<{ text: string; complaint: string }> {
  const args = [
    "-n",
    "-r",
    file,
    "-T",
    "fields",
    "-E",
    "separator=/t",
    "-E",
    "occurrence=a",
    "-E",
    "aggregator=;",
  ];
  for (const option of QUIET) args.push("-o", option);
  for (const rule of DECODE_AS) args.push("-d", rule);
  for (const field of FIELDS) args.push("-e", field);
  return new Promise((resolve, reject) => {
    execFile(
      "tshark",
      args,
      { env: { ...process.env, WIRESHARK_CONFIG_DIR: config }, maxBuffer: 1 << 30, encoding: "utf8" },
      (error, text, complaint) => {
        // Exit code 2 means a truncated or damaged file; the frames before that are printed. A missing program is an error.
        if (error && (error as NodeJS.ErrnoException).code === "ENOENT") reject(error);
        else resolve({ text, complaint });
      },
    );
  });
}

export function parseTshark(text: string): TsharkFrame[] {
  const frames: TsharkFrame[] = [];
  for (const line of text.split("\n")) {
    if (line === "") continue;
    const cells = line.split("\t");
    const values = new Map<Field, string[]>();
    FIELDS.forEach((field, i) => {
      values.set(field, cells[i] === "" || cells[i] === undefined ? [] : cells[i]!.split(";"));
    });
    const protocols = (values.get("frame.protocols")![0] ?? "").split(":");
    const chain = endpoints(protocols, values);
    frames.push({
      number: Number(cells[0]),
      time: cells[1] ?? "",
      length: Number(cells[2]),
      captured: Number(cells[3]),
      protocols,
      outer: chain[0] ?? null,
      inner: chain.at(-1) ?? null,
    });
  }
  return frames;
}

/** Protocols that may be between two IP headers of a tunnel supported by `inner`. */
const TUNNEL = new Set(
  "gre vxlan geneve gtp eth ethertype vlan ieee8021ad mpls ppp erspan pwethcw pwethheuristic pwethnocw llc pppoes udp etherip".split(
    " ",
  ),
);
const EXTENSIONS: Record<string, Field> = {
  "ipv6.hopopts": "ipv6.hopopts.nxt",
  "ipv6.routing": "ipv6.routing.nxt",
  "ipv6.fraghdr": "ipv6.fraghdr.nxt",
  "ipv6.dstopts": "ipv6.dstopts.nxt",
  ah: "ah.next_header",
  shim6: "shim6.nxt",
};

/** Returns the IP headers of a frame from the outside in, as far as `inner` supports them; without headers quoted in ICMP errors. */
function endpoints(protocols: string[], values: Map<Field, string[]>): Endpoint[] {
  const used = new Map<Field, number>();
  const take = (field: Field): string | undefined => {
    const i = used.get(field) ?? 0;
    used.set(field, i + 1);
    return values.get(field)![i];
  };
  const number = (text: string | undefined) => (text === undefined ? null : Number(text));
  const chain: Endpoint[] = [];
  for (const token of protocols) {
    const last = chain.at(-1);
    if (token === "ip" || token === "ipv6") {
      const version = token === "ip" ? 4 : 6;
      const src = take(version === 4 ? "ip.src" : "ipv6.src");
      const dst = take(version === 4 ? "ip.dst" : "ipv6.dst");
      // An EtherType of the wrong version: tshark read the following header.
      if (src === undefined || dst === undefined) continue;
      const proto = number(take(version === 4 ? "ip.proto" : "ipv6.nxt"));
      chain.push({ version, src, dst, proto, sport: null, dport: null });
    } else if (!last) {
    } else if (EXTENSIONS[token]) {
      // AH is a separate protocol over IPv4, but an extension header over IPv6.
      const next = number(take(EXTENSIONS[token]));
      if (last.version === 6 && next !== null) last.proto = next;
      if (last.version === 4) break;
    } else if (
      token === "tcp" ||
      token === "udp" ||
      token === "udplite" ||
      token === "sctp" ||
      token === "dccp"
    ) {
      const name = token === "udplite" ? "udp" : token;
      const sport = number(take(`${name}.srcport`));
      const dport = number(take(`${name}.dstport`));
      if (last.sport === null && sport !== null && dport !== null) {
        last.sport = sport;
        last.dport = dport;
      }
      if (token !== "udp") break;
    } else if (!TUNNEL.has(token)) break;
  }
  return chain;
}
