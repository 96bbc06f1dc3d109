/**
 * Records larger than a message may be (max_payload of the servers, 1 MB by default) are sent as several consecutive messages of one subject, each with
 *
 *   Hoptime-Part: NUMBER/OF/RECORD      NUMBER from 1; RECORD: message id of the whole record
 *
 * The parts of one record may be mixed with messages of others, come twice, and come in any order.
 */

export const PART_HEADER = "Hoptime-Part";
/** Reserved for the subject, the headers and the protocol. */
const ROOM = 4096;
/** No record of 256 MB has more. */
const MAX_PARTS = 4096;

export interface PartName {
  number: number;
  of: number;
  record: string;
}

/** Splits a record into pieces; a single one if it fits. */
export function piecesOf(record: Uint8Array, maxPayload: number): Uint8Array[] {
  const most = Math.max(1024, maxPayload - ROOM);
  const pieces: Uint8Array[] = [];
  for (let at = 0; at < record.length; at += most) pieces.push(record.subarray(at, at + most));
  return pieces;
}

export function partText({ number, of, record }: PartName): string {
  return `${number}/${of}/${record}`;
}

/** Null if it is not one. */
export function parsePart(text: string): PartName | null {
  const match = /^(\d{1,4})\/(\d{1,4})\/(.+)$/.exec(text);
  const [number, of] = [Number(match?.[1]), Number(match?.[2])];
  if (!match?.[3] || number < 1 || number > of || of > MAX_PARTS) return null;
  return { number, of, record: match[3] };
}

/** Parts that wait for the rest of their record. `T`: what each part came in. Bounded: the oldest record is dropped. */
export class PartAssembly<T> {
  readonly #maxBytes: number;
  readonly #open = new Map<string, { parts: Map<number, { bytes: Uint8Array; from: T }>; of: number }>();
  #bytes = 0;

  constructor(maxBytes = 512 << 20) {
    this.#maxBytes = maxBytes;
  }

  get waiting(): number {
    return this.#open.size;
  }

  /** Adds a part; returns the whole record if this was its last part. `replaced`: what the same part came in before. */
  add(
    { number, of, record }: PartName,
    bytes: Uint8Array,
    from: T,
  ): { whole: { bytes: Uint8Array; from: T[] } | null; replaced: T | null } {
    let open = this.#open.get(record);
    if (!open || open.of !== of) {
      open = { parts: new Map(), of };
      this.#open.set(record, open);
    }
    const before = open.parts.get(number) ?? null;
    open.parts.set(number, { bytes, from });
    this.#bytes += bytes.length - (before?.bytes.length ?? 0);
    if (open.parts.size < of) {
      this.#bound(record);
      return { whole: null, replaced: before?.from ?? null };
    }
    this.#forget(record);
    const parts = [...open.parts].sort(([a], [b]) => a - b).map(([, part]) => part);
    const whole = {
      bytes: new Uint8Array(Buffer.concat(parts.map((p) => p.bytes))),
      from: parts.map((p) => p.from),
    };
    return { whole, replaced: before?.from ?? null };
  }

  /** Returns records all of whose parts are old by `isOld`, and what they came in. */
  takeOld(isOld: (from: T) => boolean): { record: string; from: T[]; have: number; of: number }[] {
    const old = [...this.#open].filter(([, { parts }]) => [...parts.values()].every((p) => isOld(p.from)));
    return old.map(([record, { parts, of }]) => {
      this.#forget(record);
      return { record, from: [...parts.values()].map((p) => p.from), have: parts.size, of };
    });
  }

  /** Drops records with parts that came in something that is `gone`. */
  drop(gone: (from: T) => boolean): void {
    for (const [record, { parts }] of this.#open)
      if ([...parts.values()].some((p) => gone(p.from))) this.#forget(record);
  }

  #bound(keep: string): void {
    for (const record of this.#open.keys()) {
      if (this.#bytes <= this.#maxBytes) return;
      if (record !== keep) this.#forget(record);
    }
  }

  #forget(record: string): void {
    for (const { bytes } of this.#open.get(record)?.parts.values() ?? []) this.#bytes -= bytes.length;
    this.#open.delete(record);
  }
}
