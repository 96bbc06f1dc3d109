/** Names of link types (numbers of the pcap registry) for people: all that are decoded, and a few others that occur. */
const NAMES: Record<number, string> = {
  0: "null",
  1: "Ethernet",
  9: "PPP",
  10: "FDDI",
  12: "raw IP",
  14: "raw IP",
  50: "PPP (HDLC framing)",
  51: "PPPoE",
  100: "LLC/SNAP",
  101: "raw IP",
  104: "Cisco HDLC",
  105: "802.11",
  108: "loopback",
  113: "Linux cooked v1",
  127: "802.11 radiotap",
  166: "PPP (pppd)",
  197: "ERF",
  204: "PPP with direction",
  228: "raw IPv4",
  229: "raw IPv6",
  276: "Linux cooked v2",
};

export function linkName(link: number): string {
  return NAMES[link] ?? `link type ${link}`;
}
