/**
 * Reports without scripts (localise, plan) in the page shell of all HTML reports: the page built by `web/build.mjs` from web/design, filled with one report.
 * One file that fetches nothing; its content security policy allows no request and no style but the shell's own.
 */
import { readFileSync } from "node:fs";
import { findPackageFile } from "../../base/package-file.ts";
import { VERSION } from "../../base/version.ts";
import { escapeXml } from "../svg/svg.ts";

export interface StaticPage {
  /** Title of the window. */
  readonly title: string;
  /** The command that made the report: "hoptime localise". */
  readonly command: string;
  readonly heading: string;
  /** Line below the heading: time, size, settings. */
  readonly span: string;
  /** Sections in HTML, the most asked-for first. */
  readonly parts: readonly string[];
  /** Text in the last line, beside the version. */
  readonly remark: string;
}

/** Returns the page as HTML. Needs a built `dist/web/static.html`. */
export function renderStaticPage({ title, command, heading, span, parts, remark }: StaticPage): string {
  const fill: Record<string, string> = {
    TITLE: escapeXml(title),
    COMMAND: escapeXml(command),
    HEADING: escapeXml(heading),
    SPAN: escapeXml(span),
    MAIN: parts.filter((part) => part !== "").join("\n"),
    FOOTER: escapeXml(`hoptime ${VERSION} · one file, no network needed · ${remark}`),
  };
  return readTemplate().replace(/<!--HOPTIME:([A-Z]+)-->/g, (mark, name: string) => fill[name] ?? mark);
}

function readTemplate(): string {
  const path = findPackageFile("web/static.html");
  if (path === null) throw new Error("dist/web/static.html is missing: run `npm run build`");
  return readFileSync(path, "utf8");
}

export function card(id: string, title: string, ...content: readonly string[]): string {
  return `<section class="card" id="${id}"><h2>${escapeXml(title)}</h2>${content.join("\n")}</section>`;
}

export interface Tile {
  readonly name: string;
  readonly value: string;
  readonly detail: string;
  readonly tone?: "good" | "warn" | "bad";
}

export function tiles(list: readonly Tile[]): string {
  const drawn = list.map(
    ({ name, value, detail, tone }) =>
      `<div class="tile ${tone ?? "plain"}"><span class="tile-name">${escapeXml(name)}</span>` +
      `<span class="tile-value">${escapeXml(value)}</span><span class="tile-detail">${escapeXml(detail)}</span></div>`,
  );
  return `<div class="tiles">${drawn.join("")}</div>`;
}

export interface TableColumn {
  readonly title: string;
  readonly text?: boolean;
  /** Hidden on narrow screens. */
  readonly extra?: boolean;
}

/** Cells are HTML: the caller must escape them. */
export function table(columns: readonly TableColumn[], rows: readonly (readonly string[])[]): string {
  const kind = ({ text, extra }: TableColumn) => {
    const names = [...(text ? ["text"] : []), ...(extra ? ["extra"] : [])].join(" ");
    return names === "" ? "" : ` class="${names}"`;
  };
  const head = columns.map((column) => `<th${kind(column)}>${escapeXml(column.title)}</th>`).join("");
  const body = rows.map(
    (row) => `<tr>${columns.map((column, i) => `<td${kind(column)}>${row[i] ?? ""}</td>`).join("")}</tr>`,
  );
  return `<div class="scroll-x" tabindex="0"><table class="small"><thead><tr>${head}</tr></thead><tbody>
${body.join("\n")}
</tbody></table></div>`;
}

export function picture(svg: string): string {
  return `<div class="scroll-x" tabindex="0">${svg}</div>`;
}

export function notesCard(notes: readonly string[]): string {
  if (notes.length === 0) return "";
  return card(
    "notes",
    "Notes",
    `<ul class="sentences">${notes.map((note) => `<li>${escapeXml(note)}</li>`).join("")}</ul>`,
  );
}

/** Explains the colours of a picture: class of the swatch and its words. */
export function key(entries: readonly (readonly [string, string])[]): string {
  return `<p class="key">${entries.map(([kind, words]) => `<span><i class="${kind}"></i>${escapeXml(words)}</span>`).join("")}</p>`;
}
