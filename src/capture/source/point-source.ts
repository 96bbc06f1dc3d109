/**
 * The bytes of a capture without the packets of other interfaces: one point of a file that holds several. Descriptions of all interfaces stay, so that
 * interface numbers do not change; packets and statistics of the others are removed before anything is counted.
 *
 * Only headers of records are read; what is kept is passed on in long runs. From a record that cannot be parsed on, everything is passed on unchanged, so that
 * the reader reports the damage itself; `leftOut` bytes are then missing before it.
 */
import { UsageError } from "../../base/errors.ts";
import { BLOCK, type CaptureInterface, minBlockBytes, readInterface } from "../format/pcapng-blocks.ts";
import { PCAP_HEADER_BYTES, type PcapHeader } from "../format/sniff.ts";
import type { ByteSource } from "./byte-source.ts";
import { cookedIndex, isOneCooked, isPoint, NUMBERS_ONLY, noSuchPoint } from "./point-names.ts";

/** What happens to a record: its bytes are kept or left out. "short": more bytes are needed to decide; "bad": it cannot be parsed. */
type Fate = { length: number; keep: boolean } | "short" | "bad";

interface Records {
  /** Decides about the record at `at`, of which `have` bytes are available. */
  fate(view: DataView, at: number, have: number): Fate;
  /** Whether this interface is the selected point. */
  has(index: number): boolean;
  /** Called at the end of the stream: throws if the point never occurred. */
  end(): void;
}

const BUFFER_BYTES = 1 << 18;
const PACKET_BLOCK = 2;
const SIMPLE_PACKET_BLOCK = 3;
const ENHANCED_PACKET_BLOCK = 6;
const UNDERSTOOD: ReadonlySet<number> = new Set([
  BLOCK.interface,
  BLOCK.statistics,
  PACKET_BLOCK,
  SIMPLE_PACKET_BLOCK,
  ENHANCED_PACKET_BLOCK,
]);
const MAX_BLOCK_BYTES = 1 << 20;

export class PointSource implements ByteSource {
  readonly name: string;
  readonly size: number | null;
  readonly rereadable: boolean;
  readonly compressed: boolean;
  readonly #source: ByteSource;
  readonly #records: Records;
  #bytes: Uint8Array;
  #view: DataView;
  #from = 0;
  #to: number;
  /** Bytes from `from` on that can be passed on. keepLeft and dropLeft: bytes to keep or drop of a record that continues beyond the bytes available. */
  #ready = 0;
  #keepLeft = 0;
  #dropLeft = 0;
  #asIs = false;
  #leftOut = 0;

  /** `head`: bytes of the source that were already read. */
  constructor(source: ByteSource, head: Uint8Array, format: "pcapng" | "erf" | PcapHeader, point: string) {
    this.#source = source;
    this.name = `${source.name}#${point}`;
    this.size = source.size;
    this.rereadable = source.rereadable;
    this.compressed = source.compressed;
    this.#bytes = head.slice();
    this.#view = new DataView(this.#bytes.buffer);
    this.#to = head.length;
    this.#records =
      format === "pcapng"
        ? new PcapngRecords(source.name, point)
        : format === "erf"
          ? new ErfRecords(source.name, point)
          : new CookedRecords(source.name, point, format);
  }

  consumed(): number {
    return this.#source.consumed();
  }

  close(): void {
    this.#source.close();
  }

  /** Number of bytes of other points so far. */
  get leftOut(): number {
    return this.#leftOut;
  }

  holds(index: number): boolean {
    return this.#records.has(index);
  }

  async read(target: () => Uint8Array): Promise<number> {
    while (this.#ready === 0) {
      if (this.#scan()) continue;
      if (await this.#fill()) continue;
      if (this.#dropLeft > 0) throw new Error("the file ends within a record of another interface");
      this.#records.end();
      if (this.#from === this.#to) return 0;
      // The rest is less than a record: the reader reports it.
      this.#asIs = true;
    }
    const into = target();
    let filled = 0;
    // Runs are short if packets of the points alternate: copy as many as fit.
    do {
      const n = Math.min(this.#ready, into.length - filled);
      into.set(this.#bytes.subarray(this.#from, this.#from + n), filled);
      this.#from += n;
      this.#ready -= n;
      filled += n;
    } while (filled < into.length && !this.#asIs && this.#next());
    return filled;
  }

  /** Returns whether the bytes available hold more to pass on. */
  #next(): boolean {
    while (this.#ready === 0) if (!this.#scan()) return false;
    return true;
  }

  /** Finds the next run to pass on in the bytes available; false if more must be read. */
  #scan(): boolean {
    const dropped = Math.min(this.#dropLeft, this.#to - this.#from);
    this.#from += dropped;
    this.#dropLeft -= dropped;
    this.#leftOut += dropped;
    const have = this.#to - this.#from;
    if (have === 0) return false;
    if (this.#asIs) {
      this.#ready = have;
      return true;
    }
    this.#ready = Math.min(this.#keepLeft, have);
    this.#keepLeft -= this.#ready;
    while (this.#ready < have) {
      const fate = this.#records.fate(this.#view, this.#from + this.#ready, have - this.#ready);
      if (fate === "short") break;
      if (fate === "bad") {
        this.#asIs = true;
        break;
      }
      if (!fate.keep) {
        if (this.#ready === 0) this.#dropLeft = fate.length;
        break;
      }
      const kept = Math.min(fate.length, have - this.#ready);
      this.#keepLeft = fate.length - kept;
      this.#ready += kept;
    }
    return this.#ready > 0 || this.#dropLeft > 0 || this.#asIs;
  }

  async #fill(): Promise<boolean> {
    const rest = this.#bytes.subarray(this.#from, this.#to);
    if (this.#bytes.length < Math.max(BUFFER_BYTES, 2 * rest.length)) {
      const larger = new Uint8Array(Math.max(BUFFER_BYTES, 4 * rest.length));
      larger.set(rest);
      this.#bytes = larger;
      this.#view = new DataView(larger.buffer);
    } else this.#bytes.copyWithin(0, this.#from, this.#to);
    this.#from = 0;
    this.#to = rest.length;
    const got = await this.#source.read(() => this.#bytes.subarray(this.#to));
    this.#to += got;
    return got > 0;
  }
}

class PcapngRecords implements Records {
  readonly #file: string;
  readonly #point: string;
  readonly #interfaces: CaptureInterface[] = [];
  /** Whether each interface of the current section is selected, by number. */
  #chosen: boolean[] = [];
  #sectionStart = 0;
  #little = true;
  /** Interface numbers seen in cooked headers, if the file has one interface that stands for all of a host (`-i any`). */
  readonly #cooked = new Set<number>();
  readonly #cookedIndex: number | null;

  constructor(file: string, point: string) {
    this.#file = file;
    this.#point = point;
    this.#cookedIndex = cookedIndex(point);
  }

  has(index: number): boolean {
    return this.#isCooked() || isPoint(this.#point, this.#interfaces[index]);
  }

  #isCooked(): boolean {
    return isOneCooked(this.#interfaces) && !isPoint(this.#point, this.#interfaces[0]);
  }

  /** Returns whether the frame of a packet block, which begins `from` bytes behind the block's start, came by the selected interface. */
  #keeps(view: DataView, at: number, from: number, length: number, interfaceId: number): boolean {
    if (!this.#isCooked()) return this.#chosen[interfaceId] === true;
    if (length < from + COOKED_INDEX_AT + 8) return false;
    const index = view.getUint32(at + from + COOKED_INDEX_AT, false);
    this.#cooked.add(index);
    return index === this.#cookedIndex;
  }

  fate(view: DataView, at: number, have: number): Fate {
    if (have < 12) return "short";
    const section = view.getUint32(at, true) === BLOCK.section;
    if (section) {
      const magic = view.getUint32(at + 8, true);
      if (magic !== 0x1a2b3c4d && magic !== 0x4d3c2b1a) return "bad";
      this.#little = magic === 0x1a2b3c4d;
    }
    const little = this.#little;
    const type = view.getUint32(at, little);
    const length = view.getUint32(at + 4, little);
    if (length < minBlockBytes(type) || length % 4 !== 0) return "bad";
    // Require the whole block if possible, so that its second length is checked too, but only for blocks whose second length the reader checks.
    if (length <= MAX_BLOCK_BYTES && (section || UNDERSTOOD.has(type))) {
      if (have < length) return "short";
      if (view.getUint32(at + length - 4, little) !== length) return "bad";
    }
    if (section) {
      this.#sectionStart = this.#interfaces.length;
      this.#chosen = [];
      return { length, keep: true };
    }
    if (type === BLOCK.interface) {
      if (length > MAX_BLOCK_BYTES) return "bad";
      this.#describe(new DataView(view.buffer, at, length));
      return { length, keep: true };
    }
    if (type === SIMPLE_PACKET_BLOCK) return { length, keep: this.#keeps(view, at, 12, length, 0) };
    if (type === PACKET_BLOCK)
      return { length, keep: this.#keeps(view, at, 28, length, view.getUint16(at + 8, little)) };
    if (type === ENHANCED_PACKET_BLOCK)
      return { length, keep: this.#keeps(view, at, 28, length, view.getUint32(at + 8, little)) };
    // The drop count of all interfaces together is not that of one.
    if (type === BLOCK.statistics)
      return { length, keep: !this.#isCooked() && this.#chosen[view.getUint32(at + 8, little)] === true };
    return { length, keep: true };
  }

  #describe(block: DataView): void {
    const { description } = readInterface(block, this.#little, this.#interfaces.length);
    this.#interfaces.push(description);
    const chosen = isPoint(this.#point, description);
    const twin = this.#chosen.indexOf(true);
    if (chosen && twin >= 0) {
      throw new UsageError(
        "bad-option",
        `${this.#file}: more than one interface is called '${this.#point}'`,
        `give its number: ${this.#file}#${this.#sectionStart + twin} or ${this.#file}#${description.index}`,
      );
    }
    this.#chosen.push(chosen);
  }

  end(): void {
    if (this.#interfaces.some((i) => isPoint(this.#point, i))) return;
    if (this.#cookedIndex !== null && this.#cooked.has(this.#cookedIndex)) return;
    if (this.#isCooked()) {
      const points = [...this.#cooked].sort((a, b) => a - b).map(String);
      throw noSuchPoint(this.#file, this.#point, points, NUMBERS_ONLY);
    }
    throw noSuchPoint(
      this.#file,
      this.#point,
      this.#interfaces.map((i) => {
        const name = i.name ?? i.description;
        return name ? `${i.index} (${name})` : String(i.index);
      }),
    );
  }
}

/** An ERF record names one of four interfaces; there are no descriptions. */
class ErfRecords implements Records {
  readonly #file: string;
  readonly #point: string;
  readonly #seen = new Set<number>();

  constructor(file: string, point: string) {
    this.#file = file;
    this.#point = point;
  }

  has(index: number): boolean {
    return String(index) === this.#point;
  }

  fate(view: DataView, at: number, have: number): Fate {
    if (have < 16) return "short";
    const length = view.getUint16(at + 10, false);
    if (length < 16) return "bad";
    const index = view.getUint8(at + 9) & 3;
    this.#seen.add(index);
    return { length, keep: this.has(index) };
  }

  end(): void {
    if ([...this.#seen].some((index) => this.has(index))) return;
    throw noSuchPoint(this.#file, this.#point, [...this.#seen].sort().map(String));
  }
}

/** Offset of the interface number in a cooked header. */
const COOKED_INDEX_AT = 4;

/** Packets of all interfaces of a host in a pcap file; each carries the number of its interface. The file header is left out. */
class CookedRecords implements Records {
  readonly #file: string;
  readonly #point: string;
  readonly #header: PcapHeader;
  readonly #index: number | null;
  readonly #seen = new Set<number>();
  #begun = false;

  constructor(file: string, point: string, header: PcapHeader) {
    this.#file = file;
    this.#point = point;
    this.#header = header;
    this.#index = cookedIndex(point);
  }

  has(): boolean {
    return true;
  }

  fate(view: DataView, at: number, have: number): Fate {
    if (!this.#begun) {
      if (have < PCAP_HEADER_BYTES) return "short";
      this.#begun = true;
      return { length: PCAP_HEADER_BYTES, keep: false };
    }
    const header = this.#header.modified ? 24 : 16;
    if (have < header + 8) return "short";
    const captured = view.getUint32(at + 8, !this.#header.swapped);
    if (captured > MAX_BLOCK_BYTES) return "bad";
    if (captured < 8) return { length: header + captured, keep: false };
    const index = view.getUint32(at + header + 4, false);
    this.#seen.add(index);
    return { length: header + captured, keep: index === this.#index };
  }

  end(): void {
    if (this.#index !== null && this.#seen.has(this.#index)) return;
    const points = [...this.#seen].sort((a, b) => a - b).map(String);
    throw noSuchPoint(this.#file, this.#point, points, NUMBERS_ONLY);
  }
}
