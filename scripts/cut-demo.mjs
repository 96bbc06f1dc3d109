// Cuts the demo's captures from the two-point router capture: the packets of a time range, as nanosecond pcap, gzip.
// usage: node scripts/cut-demo.mjs IN.pcap OUT.pcap.gz FROM_NS TO_NS
import { readFileSync, writeFileSync } from "node:fs";
import { gunzipSync, gzipSync } from "node:zlib";

const [input, output, from, to] = process.argv.slice(2);
let bytes = readFileSync(input);
if (bytes[0] === 0x1f && bytes[1] === 0x8b) bytes = gunzipSync(bytes);
const parts = [bytes.subarray(0, 24)];
let kept = 0;
for (let p = 24; p + 16 <= bytes.length; ) {
  const ns = BigInt(bytes.readUInt32LE(p)) * 1_000_000_000n + BigInt(bytes.readUInt32LE(p + 4));
  const end = p + 16 + bytes.readUInt32LE(p + 8);
  if (ns >= BigInt(from) && ns < BigInt(to)) {
    parts.push(bytes.subarray(p, end));
    kept++;
  }
  p = end;
}
writeFileSync(output, gzipSync(Buffer.concat(parts), { level: 9 }));
console.error(`${output}: ${kept} packets`);
