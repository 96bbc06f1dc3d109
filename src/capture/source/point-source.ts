/**
 * The bytes of a capture without the packets of other interfaces: one point of a file that holds several. Descriptions of all interfaces stay, so
 * that their numbers do; packets and statistics of the others are left out before anything is counted.
 *
 * Only heads of records are looked at, and what is kept is handed on in long runs. Where a record cannot be understood, all that follows is handed
 * on as it is: the reader meets the damage itself. `leftOut` bytes are then missing before it.
 */
import { UsageError } from "../../base/errors.ts";
import { BLOCK, type CaptureInterface, minBlockBytes, readInterface } from "../format/pcapng-blocks.ts";
import { PCAP_HEADER_BYTES, type PcapHeader } from "../format/sniff.ts";
import type { ByteSource } from "./byte-source.ts";
import { cookedIndex, isOneCooked, isPoint, NUMBERS_ONLY, noSuchPoint } from "./point-names.ts";

/** A record's fate: its bytes are kept or left out; "short": more must be read to tell; "bad": not to be understood. */
type Fate = { length: number; keep: boolean } | "short" | "bad";

interface Records {
  /** Of the record at `at`, of which `have` bytes are at hand. */
  fate(view: DataView, at: number, have: number): Fate;
  /** It is one of the capture's points. */
  has(index: number): boolean;
  /** All of the stream was seen: throws where the point was never met. */
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
  /** Bytes from `from` on that are to be handed out; of a record that reaches beyond what is at hand. */
  #ready = 0;
  #keepLeft = 0;
  #dropLeft = 0;
  #asIs = false;
  #leftOut = 0;

  /** `head`: what was read of the source already. */
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

  /** Bytes of other points so far. */
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
      // The rest is less than a record: for the reader to complain about.
      this.#asIs = true;
    }
    const into = target();
    let filled = 0;
    // Runs are short where packets of the points take turns: as many as there is room for.
    do {
      const n = Math.min(this.#ready, into.length - filled);
      into.set(this.#bytes.subarray(this.#from, this.#from + n), filled);
      this.#from += n;
      this.#ready -= n;
      filled += n;
    } while (filled < into.length && !this.#asIs && this.#next());
    return filled;
  }

  /** There is more to hand out of what is at hand. */
  #next(): boolean {
    while (this.#ready === 0) if (!this.#scan()) return false;
    return true;
  }

  /** Finds the next run to hand out in what is at hand; false where more must be read. */
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
  /** By number in the section at hand. */
  #chosen: boolean[] = [];
  #sectionStart = 0;
  #little = true;
  /** Numbers of interfaces in cooked headers, where the file has one interface that stands for all of a host (`-i any`). */
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

  /** Whether the frame in a block of a packet, which begins `from` bytes behind its start, came by the interface. */
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
    // Whole where it can be, so that its second length is seen as well: where the reader looks at it, and only there.
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
    // Drops of all interfaces together are not those of one.
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

/** An ERF record says by which of four interfaces it came; none is described. */
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

/** Bytes before the number of the interface in a cooked header. */
const COOKED_INDEX_AT = 4;

/** Packets of all interfaces of a host in a pcap file; each carries the number of its interface. The file's own header is left out. */
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
