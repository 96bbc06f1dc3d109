/**
 * Flow exports as sent by exporters: NetFlow v5 and v9 (RFC 3954) and IPFIX (RFC 7011) messages, one after the other in a file (for IPFIX that is RFC 5655), or
 * in a capture of their UDP packets. Versions and exporters may be mixed. Reads big-endian and checks every length; violations are a FormatError with the
 * offset in the file.
 *
 * Left out, with a note: data sent before their template, records without addresses or packets, packets of a capture that are not exports. Sampling has a note,
 * too: counts of sampled packets are not packet counts.
 */

import { FormatError, UsageError } from "../base/errors.ts";
import { countOf } from "../base/quantity.ts";
import { type Bad, type ExporterClock, readDataSet, type Template } from "./export-fields.ts";
import type { FlowRecord } from "./flow-records.ts";
import { IPFIX_VERSION, readIpfixMessage } from "./ipfix.ts";
import { NETFLOW_5, NETFLOW_9, readNetflow5, readNetflow9 } from "./netflow.ts";
import { capturedDatagrams } from "./udp-payloads.ts";

/** Receives the contents of messages. */
export interface ExportSink {
  flow(record: FlowRecord): void;
  /** `domain`: the template numbers are unique within it, per exporter. */
  template(domain: number, number: number, template: Template | null): void;
  /** A data set: read by its template, if that was sent. */
  data(domain: number, number: number, from: number, to: number, clock: ExporterClock | null): void;
  sampled(oneIn: number): void;
}

export interface ExportedFlows {
  records: FlowRecord[];
  notes: string[];
}

/** Reads the message at `at`, in bytes that end at `limit`; returns its end. */
export type ReadMessage = (message: MessageBytes, sink: ExportSink, bad: BadBytes) => number;

export interface MessageBytes {
  readonly view: DataView;
  readonly at: number;
  readonly limit: number;
}
/** Errors of messages: invalid, or truncated. */
export interface BadBytes {
  wrong: Bad;
  cut: Bad;
}

const READERS = new Map<number, ReadMessage>([
  [NETFLOW_5, readNetflow5],
  [NETFLOW_9, readNetflow9],
  [IPFIX_VERSION, readIpfixMessage],
]);

/** About a gigabyte in memory. */
export const MAX_FLOW_RECORDS = 4_000_000;

export function tooManyRecords(file: string): UsageError {
  return new UsageError(
    "not-supported",
    `${file}: more than ${MAX_FLOW_RECORDS.toLocaleString("en-US")} flow records`,
    "aggregate them (nfdump -a), or take a shorter time",
  );
}

/** Whether the bytes begin like exports; no text does. */
export function looksLikeExports(bytes: Uint8Array): boolean {
  return bytes.length >= 2 && bytes[0] === 0 && READERS.has(bytes[1] ?? 0);
}

/** Reads consecutive messages. */
export function readExports(bytes: Uint8Array, file: string): ExportedFlows {
  const exported = new Exported(file);
  exported.open(new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength), 0);
  for (let at = 0; at < bytes.length; ) at = exported.message(at, bytes.length, "");
  return exported.result();
}

/** Reads a capture of the exporters' UDP packets. */
export async function readCapturedExports(bytes: Uint8Array, file: string): Promise<ExportedFlows> {
  const exported = new Exported(file);
  const datagrams = capturedDatagrams(bytes, file);
  let others = 0;
  for (;;) {
    const { done, value } = await datagrams.next();
    if (done) return exported.result(others + value);
    const { view, offset, length, exporter } = value;
    exported.open(view, offset);
    if (!exported.begins(length)) {
      others++;
      continue;
    }
    if (view.byteLength < length) {
      const message = `an export of ${length} bytes of which the capture has ${view.byteLength}: capture with -s 0`;
      throw new FormatError("truncated", file, offset, message);
    }
    for (let at = 0; at < length; ) at = exported.message(at, length, exporter);
  }
}

/** Maximum number of fields in all templates together; real exporters have some hundred. */
const MAX_TEMPLATE_FIELDS = 1_000_000;
/** Maximum number of missing templates, and of sampling rates, that are distinguished. */
const MAX_TOLD_APART = 1000;

class Exported {
  readonly #file: string;
  readonly #records: FlowRecord[] = [];
  #view: DataView = new DataView(new ArrayBuffer(0));
  /** Offset of the view in the file. */
  #offset = 0;
  readonly #bad: BadBytes;
  /** By exporter, domain and number. */
  readonly #templates = new Map<string, Template>();
  readonly #unknown = new Set<string>();
  readonly #sampling = new Set<number>();
  #unknownSets = 0;
  #templateFields = 0;
  #unusable = 0;
  #incomplete = 0;
  #messages = 0;

  constructor(file: string) {
    this.#file = file;
    this.#bad = {
      wrong: (at, message) => new FormatError("bad-record", file, this.#offset + at, message),
      cut: (at, message) => new FormatError("truncated", file, this.#offset + at, message),
    };
  }

  /** Sets the bytes to read, and their offset in the file. */
  open(view: DataView, offset: number): void {
    this.#view = view;
    this.#offset = offset;
  }

  /** Whether a datagram begins like an export. Other packets of a capture are skipped. */
  begins(length: number): boolean {
    if (this.#view.byteLength < 4) return false;
    const version = this.#view.getUint16(0);
    const next = this.#view.getUint16(2);
    if (version === NETFLOW_5) return length === 24 + 48 * next;
    if (version === IPFIX_VERSION) return length === next;
    return version === NETFLOW_9 && length >= 20;
  }

  /** Reads the message at `at`; returns the start of the next one. */
  message(at: number, end: number, exporter: string): number {
    if (end - at < 2) throw this.#bad.cut(at, `a message of ${end - at} byte`);
    const version = this.#view.getUint16(at);
    const read = READERS.get(version);
    if (!read) {
      throw this.#bad.wrong(at, `a message of version ${version}: not NetFlow v5 or v9, nor IPFIX`);
    }
    this.#messages++;
    return read({ view: this.#view, at, limit: end }, this.#sink(exporter), this.#bad);
  }

  result(others = 0): ExportedFlows {
    const notes: string[] = [];
    if (this.#sampling.size > 0) {
      const rates = [...this.#sampling].sort((a, b) => a - b).map((n) => Number(n.toPrecision(4)));
      notes.push(
        `the exporter sampled one in ${rates.join(", ")} packets: its counts are those of the sample, scale them before use`,
      );
    }
    if (this.#unknown.size > 0) {
      const more = this.#unknown.size === MAX_TOLD_APART ? " or more" : "";
      const templates = `${countOf(this.#unknown.size, "template")}${more}`;
      notes.push(
        `${countOf(this.#unknownSets, "data set")} of ${templates} left out: received before their template`,
      );
    }
    if (this.#unusable > 0)
      notes.push(`${countOf(this.#unusable, "template")} with fields of no length left out, with their data`);
    if (this.#incomplete > 0) {
      notes.push(`${countOf(this.#incomplete, "record")} without addresses or packets left out`);
    }
    if (others > 0) notes.push(`${countOf(others, "packet")} of the capture without flow exports`);
    if (this.#messages === 0) notes.push("there is no flow export in it");
    return { records: this.#records, notes };
  }

  #sink(exporter: string): ExportSink {
    const name = (domain: number, number: number) => `${exporter} ${domain} ${number}`;
    return {
      flow: (record) => this.#keep(record),
      sampled: (oneIn) => this.#sampled(oneIn),
      template: (domain, number, template) => this.#template(name(domain, number), template),
      data: (domain, number, from, to, clock) => {
        const key = name(domain, number);
        const template = this.#templates.get(key);
        if (!template) {
          this.#unknownSets++;
          if (this.#unknown.size < MAX_TOLD_APART) this.#unknown.add(key);
          return;
        }
        const { flows, incomplete, sampling } = readDataSet(
          this.#view,
          from,
          to,
          template,
          clock,
          this.#bad.wrong,
        );
        for (const flow of flows) this.#keep(flow);
        for (const rate of sampling) this.#sampled(rate);
        this.#incomplete += incomplete;
      },
    };
  }

  #keep(record: FlowRecord): void {
    if (this.#records.length === MAX_FLOW_RECORDS) throw tooManyRecords(this.#file);
    this.#records.push(record);
  }

  #sampled(oneIn: number): void {
    if (this.#sampling.size < MAX_TOLD_APART) this.#sampling.add(oneIn);
  }

  /** Null withdraws the template. */
  #template(key: string, template: Template | null): void {
    this.#templateFields -= this.#templates.get(key)?.fields.length ?? 0;
    this.#templates.delete(key);
    if (!template) return;
    // Fields of length 0 carry no data, and thousands of them would be processed for each byte of data.
    if (template.fields.some((field) => field.length === 0)) {
      this.#unusable++;
      return;
    }
    this.#templateFields += template.fields.length;
    if (this.#templateFields > MAX_TEMPLATE_FIELDS)
      throw this.#bad.wrong(
        0,
        `templates of more than ${MAX_TEMPLATE_FIELDS.toLocaleString("en-US")} fields`,
      );
    this.#templates.set(key, template);
  }
}
