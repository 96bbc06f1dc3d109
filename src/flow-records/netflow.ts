/**
 * NetFlow v5 and v9 messages. Times in both count ms since the exporter started; the header gives the values of that clock and of the wall clock.
 *
 *   v5   0   2       4         8      12       16        20       22         24
 *        | 5 | count | uptime  | secs | nsecs  | sequence | engine | sampling | count records of 48 bytes
 *   v9   0   2       4         8      12         16       20
 *        | 9 | count | uptime  | secs | sequence | source | flow sets: id, length, body (RFC 3954)
 *
 * A v9 message does not state its length: in a file it ends where the next one begins, whose version cannot be the number of a flow set.
 */
import { formatIpv4 } from "../capture/address.ts";
import { type Bad, type Field, type Template, wallNs } from "./export-fields.ts";
import type { ReadMessage } from "./flow-exports.ts";

export const NETFLOW_5 = 5;
export const NETFLOW_9 = 9;
const V5_HEADER = 24;
const V5_RECORD = 48;
const V5_MAX = 30;
const V9_HEADER = 20;
const TEMPLATE_SET = 0;
const OPTIONS_SET = 1;
const FIRST_DATA_SET = 256;
/** Versions of export messages; none is the number of a flow set. */
const VERSIONS = new Set([5, 9, 10]);
/** Field types from here on belong to vendors. */
const VENDORS = 0x8000;

export const readNetflow5: ReadMessage = ({ view, at, limit }, sink, { wrong, cut }) => {
  if (limit - at < V5_HEADER) throw cut(at, "a NetFlow v5 header is cut");
  const count = view.getUint16(at + 2);
  if (count === 0 || count > V5_MAX)
    throw wrong(at + 2, `a NetFlow v5 message of ${count} records, not 1 to ${V5_MAX}`);
  const end = at + V5_HEADER + V5_RECORD * count;
  if (end > limit) throw cut(at, `a NetFlow v5 message of ${end - at} bytes, ${limit - at} are left`);
  const uptimeMs = view.getUint32(at + 4);
  const bootNs = view.getUint32(at + 8) * 1e9 + view.getUint32(at + 12) - uptimeMs * 1e6;
  const clock = { bootNs, uptimeMs };
  // Two bits of mode, fourteen of the interval.
  const interval = view.getUint16(at + 22) & 0x3fff;
  if (interval > 1) sink.sampled(interval);
  for (let r = at + V5_HEADER; r < end; r += V5_RECORD) {
    const packets = view.getUint32(r + 16);
    if (packets === 0) continue;
    sink.flow({
      key: {
        src: formatIpv4(view.getUint32(r)),
        dst: formatIpv4(view.getUint32(r + 4)),
        proto: view.getUint8(r + 38),
        sport: view.getUint16(r + 32),
        dport: view.getUint16(r + 34),
        dscp: view.getUint8(r + 39) >> 2,
      },
      packets,
      bytes: view.getUint32(r + 20),
      startNs: wallNs(clock, view.getUint32(r + 24)),
      endNs: wallNs(clock, view.getUint32(r + 28)),
    });
  }
  return end;
};

export const readNetflow9: ReadMessage = ({ view, at, limit }, sink, { wrong, cut }) => {
  if (limit - at < V9_HEADER) throw cut(at, "a NetFlow v9 header is cut");
  const uptimeMs = view.getUint32(at + 4);
  const clock = { bootNs: view.getUint32(at + 8) * 1e9 - uptimeMs * 1e6, uptimeMs };
  const source = view.getUint32(at + 16);
  let set = at + V9_HEADER;
  while (set < limit) {
    if (limit - set < 2) throw cut(set, "a flow set is cut");
    const id = view.getUint16(set);
    if (VERSIONS.has(id)) break;
    if (limit - set < 4) throw cut(set, "a flow set is cut");
    if (id > OPTIONS_SET && id < FIRST_DATA_SET) throw wrong(set, `a flow set of number ${id}`);
    const length = view.getUint16(set + 2);
    if (length < 4) throw wrong(set, `a flow set of ${length} bytes`);
    const end = set + length;
    if (end > limit) throw cut(set, `a flow set of ${length} bytes, ${limit - set} are left`);
    if (id === TEMPLATE_SET || id === OPTIONS_SET)
      for (const [number, template] of readTemplates(view, set + 4, end, id === OPTIONS_SET, wrong))
        sink.template(source, number, template);
    else sink.data(source, id, set + 4, end, clock);
    set = end;
  }
  return set;
};

/**
 * Reads templates: number, number of fields, and their descriptions of four bytes each. An options template states the bytes of its scopes and of its options
 * instead of the number of fields.
 */
function* readTemplates(
  view: DataView,
  from: number,
  to: number,
  options: boolean,
  bad: Bad,
): Generator<[number: number, template: Template]> {
  const header = options ? 6 : 4;
  // A rest shorter than a template's header is padding.
  for (let at = from; to - at >= header; ) {
    const number = view.getUint16(at);
    const scopes = options ? view.getUint16(at + 2) : 0;
    const bytes = options ? scopes + view.getUint16(at + 4) : 4 * view.getUint16(at + 2);
    if (number === 0 && bytes === 0) return;
    const what = options ? "an options template" : "a template";
    if (number < FIRST_DATA_SET) throw bad(at, `${what} of number ${number}`);
    if (to - at - header < bytes) throw bad(at, `${what} of ${bytes} bytes is cut`);
    const fields = fieldsAt(view, at + header, Math.floor(bytes / 4));
    // Scope types have numbers of their own.
    for (const field of fields.slice(0, scopes / 4)) field.foreign = true;
    yield [number, { fields, options }];
    at += header + bytes;
  }
}

function fieldsAt(view: DataView, from: number, count: number): Field[] {
  return Array.from({ length: count }, (_, i) => {
    const element = view.getUint16(from + 4 * i);
    return {
      element,
      length: view.getUint16(from + 4 * i + 2),
      reverse: false,
      foreign: element >= VENDORS,
    };
  });
}
