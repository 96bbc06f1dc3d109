/**
 * The nodes and edges of a GraphML document, as written. The XML is parsed by saxes: it is well-formed or refused with the position; entities of a DOCTYPE are
 * never expanded, and nothing is fetched. Namespace prefixes are removed from names; additions of drawing programs are ignored.
 */
import { SaxesParser, type SaxesTagPlain } from "saxes";
import { FormatError } from "../../base/errors.ts";
import { byteOffset } from "./text-lines.ts";

export interface Element {
  readonly id: string;
  /** Start of the element, as an index into the text. */
  readonly at: number;
  /** By the attribute's name in lower case, as the document's keys give it. */
  readonly data: Map<string, string>;
}

export interface EdgeElement extends Element {
  readonly ends: string[];
  readonly directed: boolean;
}

export interface GraphMlElements {
  readonly graphs: number;
  readonly nodes: readonly Element[];
  readonly edges: readonly EdgeElement[];
}

export function readGraphMl(text: string, file: string): GraphMlElements {
  const reader = new ElementReader((at, message) => {
    throw new FormatError("bad-record", file, byteOffset(text, at), message);
  });
  return reader.read(text);
}

type Refuse = (at: number, message: string) => never;
type Attributes = Readonly<Record<string, string>>;

const localName = (name: string) => name.slice(name.lastIndexOf(":") + 1);

class ElementReader {
  readonly #parser = new SaxesParser({ xmlns: false });
  readonly #refuse: Refuse;
  readonly #keys = new Map<string, string>();
  readonly #nodes: Element[] = [];
  readonly #edges: EdgeElement[] = [];
  readonly #open: (Element | EdgeElement)[] = [];
  #directedByDefault = false;
  #graphs = 0;
  #dataKey: string | null = null;
  #tagStart = 0;
  #ending = false;

  readonly #handlers: Readonly<Record<string, (attributes: Attributes) => void>> = {
    key: (attributes) => this.#key(attributes),
    graph: ({ edgedefault }) => {
      this.#graphs++;
      this.#directedByDefault = edgedefault === "directed";
    },
    node: (attributes) => this.#node(attributes),
    edge: (attributes) => this.#edge(attributes, true),
    hyperedge: (attributes) => this.#edge(attributes, false),
    endpoint: (attributes) => this.#endpoint(attributes),
    data: ({ key = "" }) => {
      this.#dataKey = this.#keys.get(key) ?? key.toLowerCase();
    },
  };

  constructor(refuse: Refuse) {
    this.#refuse = refuse;
    const parser = this.#parser;
    // By then '<', the name and the character after it have been read.
    parser.on("opentagstart", ({ name }) => {
      this.#tagStart = parser.position - name.length - 2;
    });
    parser.on("opentag", (tag) => this.#openTag(tag));
    parser.on("closetag", ({ name }) => this.#closeTag(localName(name)));
    parser.on("text", (text) => this.#text(text));
    parser.on("cdata", (text) => this.#text(text));
    parser.on("error", (error) => this.#problem(error));
  }

  read(text: string): GraphMlElements {
    this.#parser.write(text);
    this.#ending = true;
    this.#parser.close();
    return { graphs: this.#graphs, nodes: this.#nodes, edges: this.#edges };
  }

  #problem(error: Error): void {
    const what = error.message.replace(/^[\d:]+\s*/, "").replace(/\.$/, "");
    // For a name that the document does not declare (&nbsp; and the like) the text stays as it is.
    if (what.includes("undefined entity")) return;
    // A truncated file must not pass for a smaller network.
    const why = this.#ending ? `the document ends too early (${what}): it was cut off` : what;
    this.#refuse(this.#parser.position, `XML: ${why}`);
  }

  #openTag({ name, attributes: given }: SaxesTagPlain): void {
    const attributes: Attributes = Object.fromEntries(
      Object.entries(given).map(([key, value]) => [localName(key), value]),
    );
    this.#handlers[localName(name)]?.(attributes);
  }

  #closeTag(name: string): void {
    if (name === "data") this.#dataKey = null;
    else if (name === "node" || name === "edge" || name === "hyperedge") this.#open.pop();
  }

  /** A nested element of a drawing program may add text of its own; the first text of a key counts. */
  #text(text: string): void {
    const owner = this.#open.at(-1);
    const value = text.trim();
    if (this.#dataKey !== null && owner && value !== "" && !owner.data.has(this.#dataKey))
      owner.data.set(this.#dataKey, value);
  }

  #key(attributes: Attributes): void {
    const id = attributes["id"];
    const name = attributes["attr.name"] ?? attributes["yfiles.type"];
    if (id !== undefined && name !== undefined) this.#keys.set(id, name.toLowerCase());
  }

  #node(attributes: Attributes): void {
    const { id } = attributes;
    if (id === undefined) this.#refuse(this.#tagStart, "a node without an id");
    const node = { id, at: this.#tagStart, data: new Map<string, string>() };
    this.#nodes.push(node);
    this.#open.push(node);
  }

  #edge(attributes: Attributes, plain: boolean): void {
    const ends = [attributes["source"], attributes["target"]].filter((end) => end !== undefined);
    if (plain && ends.length < 2) this.#refuse(this.#tagStart, "an edge without source or target");
    const directed = attributes["directed"];
    const edge: EdgeElement = {
      id: attributes["id"] ?? "",
      at: this.#tagStart,
      data: new Map(),
      ends,
      directed: directed === undefined ? this.#directedByDefault : directed === "true",
    };
    this.#edges.push(edge);
    this.#open.push(edge);
  }

  #endpoint(attributes: Attributes): void {
    const owner = this.#open.at(-1);
    const { node } = attributes;
    if (owner && "ends" in owner && node !== undefined) owner.ends.push(node);
  }
}
