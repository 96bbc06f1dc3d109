/**
 * A small tolerant XML reader: a flat stream of tags and text, enough for GraphML.
 *
 * Knows elements, attributes, text, CDATA, comments, processing instructions, a DOCTYPE (skipped; no entity of it is
 * ever expanded and nothing is fetched) and the five named and all numeric character references. Does not check that
 * tags nest; the reader of the events does where it matters. Fails with the offset where a construct does not end.
 */
export type XmlEvent =
  | {
      readonly kind: "open";
      readonly name: string;
      readonly attributes: ReadonlyMap<string, string>;
      readonly at: number;
    }
  | { readonly kind: "close"; readonly name: string; readonly at: number }
  | { readonly kind: "text"; readonly text: string; readonly at: number };

/** Where the reader stopped: a character index in the text, turned into a byte offset by the caller. */
export class XmlProblem extends Error {
  readonly at: number;
  constructor(at: number, message: string) {
    super(message);
    this.name = "XmlProblem";
    this.at = at;
  }
}

const NAMED = new Map([
  ["lt", "<"],
  ["gt", ">"],
  ["amp", "&"],
  ["quot", '"'],
  ["apos", "'"],
]);

/** A self-closing tag gives an open and a close event. Names keep no namespace prefix. */
export function* readXml(text: string): Generator<XmlEvent> {
  let i = 0;
  while (i < text.length) {
    const open = text.indexOf("<", i);
    const end = open < 0 ? text.length : open;
    if (end > i) yield { kind: "text", text: decodeReferences(text.slice(i, end)), at: i };
    if (open < 0) return;
    if (text.startsWith("<!--", open)) i = after(text, "-->", open + 4, open, "a comment");
    else if (text.startsWith("<![CDATA[", open)) {
      i = after(text, "]]>", open + 9, open, "a CDATA section");
      yield { kind: "text", text: text.slice(open + 9, i - 3), at: open };
    } else if (text.startsWith("<?", open)) i = after(text, "?>", open + 2, open, "a processing instruction");
    else if (text.startsWith("<!", open)) i = skipDeclaration(text, open);
    else if (text[open + 1] === "/") {
      i = after(text, ">", open + 2, open, "a closing tag");
      yield { kind: "close", name: localName(text.slice(open + 2, i - 1).trim()), at: open };
    } else {
      const tag = readTag(text, open);
      yield { kind: "open", name: tag.name, attributes: tag.attributes, at: open };
      if (tag.closed) yield { kind: "close", name: tag.name, at: open };
      i = tag.end;
    }
  }
}

function readTag(text: string, open: number) {
  const nameMatch = /[^\s/>=<"']+/y;
  nameMatch.lastIndex = open + 1;
  const name = nameMatch.exec(text)?.[0];
  if (!name) throw new XmlProblem(open, "'<' begins no tag");
  const attributes = new Map<string, string>();
  let i = nameMatch.lastIndex;
  for (;;) {
    while (i < text.length && /\s/.test(text[i]!)) i++;
    if (i >= text.length) throw new XmlProblem(open, `the tag <${name}> does not end`);
    if (text[i] === ">") return { name: localName(name), attributes, closed: false, end: i + 1 };
    if (text[i] === "/") {
      if (text[i + 1] === ">") return { name: localName(name), attributes, closed: true, end: i + 2 };
      i++;
      continue;
    }
    nameMatch.lastIndex = i;
    const key = nameMatch.exec(text)?.[0];
    if (!key) throw new XmlProblem(i, `an attribute of <${name}> is broken`);
    i = nameMatch.lastIndex;
    while (i < text.length && /\s/.test(text[i]!)) i++;
    if (text[i] !== "=") {
      attributes.set(localName(key), "");
      continue;
    }
    i++;
    while (i < text.length && /\s/.test(text[i]!)) i++;
    const quote = text[i];
    if (quote !== '"' && quote !== "'")
      throw new XmlProblem(i, `the attribute ${key} of <${name}> is not quoted`);
    const close = text.indexOf(quote, i + 1);
    if (close < 0) throw new XmlProblem(i, `the attribute ${key} of <${name}> does not end`);
    attributes.set(localName(key), decodeReferences(text.slice(i + 1, close)));
    i = close + 1;
  }
}

function after(text: string, mark: string, from: number, open: number, what: string): number {
  const end = text.indexOf(mark, from);
  if (end < 0) throw new XmlProblem(open, `${what} does not end`);
  return end + mark.length;
}

/** `<!DOCTYPE …>`, which may hold `[ … ]` with tags of its own. */
function skipDeclaration(text: string, open: number): number {
  let depth = 0;
  for (let i = open + 2; i < text.length; i++) {
    if (text[i] === "[") depth++;
    else if (text[i] === "]") depth--;
    else if (text[i] === ">" && depth <= 0) return i + 1;
  }
  throw new XmlProblem(open, "a declaration does not end");
}

function localName(name: string): string {
  const colon = name.lastIndexOf(":");
  return colon < 0 ? name : name.slice(colon + 1);
}

function decodeReferences(text: string): string {
  if (!text.includes("&")) return text;
  return text.replace(/&(#x[0-9a-fA-F]+|#[0-9]+|[a-z]+);/g, (whole, body: string) => {
    if (!body.startsWith("#")) return NAMED.get(body) ?? whole;
    const code = body[1] === "x" ? Number.parseInt(body.slice(2), 16) : Number(body.slice(1));
    return code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : whole;
  });
}
