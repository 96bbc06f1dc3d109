/**
 * IPFIX messages (RFC 7011): a header with its length, then sets of templates, options templates and data.
 *
 *   0       2        4             8          12        16
 *   | 10    | length | export time | sequence | domain  | sets: id, length, body
 */
import type { Bad, Field, Template } from "./export-fields.ts";
import type { ReadMessage } from "./flow-exports.ts";

export const IPFIX_VERSION = 10;
const HEADER_BYTES = 16;
const TEMPLATE_SET = 2;
const OPTIONS_SET = 3;
const FIRST_DATA_SET = 256;
const ENTERPRISE = 0x8000;
/** Fields of the reverse direction (RFC 5103). */
const REVERSE = 29_305;

export const readIpfixMessage: ReadMessage = ({ view, at, limit }, sink, { wrong, cut }) => {
  if (limit - at < HEADER_BYTES) throw cut(at, "an IPFIX header is cut");
  const length = view.getUint16(at + 2);
  if (length < HEADER_BYTES || at + length > limit)
    throw cut(at, `an IPFIX message of ${length} bytes, ${limit - at} are left`);
  const domain = view.getUint32(at + 12);
  const end = at + length;
  for (let set = at + HEADER_BYTES; set < end; ) {
    if (end - set < 4) throw wrong(set, "a set is cut");
    const id = view.getUint16(set);
    const setEnd = set + view.getUint16(set + 2);
    if (setEnd < set + 4 || setEnd > end) throw wrong(set, "a set is longer than its message");
    if (id === TEMPLATE_SET || id === OPTIONS_SET) {
      readTemplates(view, set + 4, setEnd, id === OPTIONS_SET, wrong, (number, template) =>
        sink.template(domain, number, template),
      );
    } else if (id >= FIRST_DATA_SET) sink.data(domain, id, set + 4, setEnd, null);
    set = setEnd;
  }
  return end;
};

function readTemplates(
  view: DataView,
  from: number,
  to: number,
  options: boolean,
  bad: Bad,
  put: (number: number, template: Template | null) => void,
): void {
  let at = from;
  // A rest shorter than a template's header is padding.
  while (to - at >= 4) {
    const number = view.getUint16(at);
    const count = view.getUint16(at + 2);
    at += 4;
    if (number < FIRST_DATA_SET) {
      if (number === 0) return;
      throw bad(at - 4, `a template of number ${number}`);
    }
    if (count === 0) {
      put(number, null);
      continue;
    }
    if (options) at += 2;
    const fields: Field[] = [];
    for (let i = 0; i < count; i++) {
      if (to - at < 4) throw bad(at, "a template is cut");
      const raw = view.getUint16(at);
      const length = view.getUint16(at + 2);
      at += 4;
      let enterprise = 0;
      if ((raw & ENTERPRISE) !== 0) {
        if (to - at < 4) throw bad(at, "a template is cut");
        enterprise = view.getUint32(at);
        at += 4;
      }
      const reverse = enterprise === REVERSE;
      fields.push({ element: raw & ~ENTERPRISE, length, reverse, foreign: enterprise !== 0 && !reverse });
    }
    put(number, { fields, options });
  }
}
