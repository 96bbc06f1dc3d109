/** Writes the report of a reproduction: Markdown with separate figures, and one HTML file that works offline. */
import { VERSION } from "../../base/version.ts";
import { writeQuantity } from "../../present/figure/axis-scale.ts";
import { drawFigure, figureTable } from "../../present/figure/draw.ts";
import { card, picture, renderStaticPage, type Tile, table, tiles } from "../../present/html/static-page.ts";
import { escapeXml } from "../../present/svg/svg.ts";
import { LEFT_OUT } from "./left-out.ts";
import type { Reproduction } from "./reproduction.ts";
import { type Finding, isMet, PAPERS, type Paper, type Threshold, VERDICTS } from "./study.ts";

export interface FigureFile {
  readonly name: string;
  readonly svg: string;
}

/** Returns each figure as its own file, for the Markdown page. */
export function figureFiles({ findings }: Reproduction): FigureFile[] {
  return findings.flatMap((finding) =>
    finding.figures.map((figure, i) => ({
      name: figureName(finding, i),
      svg: drawFigure(figure, { standalone: true }),
    })),
  );
}

function figureName({ id }: Finding, i: number): string {
  return `${id}${i === 0 ? "" : `-${i + 1}`}.svg`;
}

export function allThresholds({ findings }: Reproduction): { finding: Finding; threshold: Threshold }[] {
  return findings.flatMap((finding) => finding.thresholds.map((threshold) => ({ finding, threshold })));
}

function byPaper(findings: readonly Finding[]): { paper: Paper; own: Finding[] }[] {
  return (Object.keys(PAPERS) as Paper[])
    .map((paper) => ({ paper, own: findings.filter((f) => f.paper === paper) }))
    .filter(({ own }) => own.length > 0);
}

/** The command that made the page, and the path from the page to its figures. */
export interface ReportOptions {
  readonly command: string;
  readonly figures: string;
}

export function renderMarkdown(reproduction: Reproduction, { command, figures }: ReportOptions): string {
  const { findings, scale, seed } = reproduction;
  const lines = [
    "# Reproduction",
    "",
    `Made by \`${command}\` (hoptime ${VERSION}; scale ${scale}, seed ${seed}). For each table and figure of the papers that can be repeated without the original traces: what the paper says, what the algorithm as written gives, what ours gives.`,
    "",
    headlineTable(findings, (finding) => `[${finding.id}](#${finding.id})`),
    "",
  ];
  const met = allThresholds(reproduction);
  if (met.length > 0) {
    const reached = met.filter(({ threshold }) => isMet(threshold)).length;
    lines.push(`Levels that a right implementation reaches: ${reached} of ${met.length} reached.`, "");
  }
  for (const { paper, own } of byPaper(findings)) {
    lines.push(`## ${PAPERS[paper]}`, "");
    for (const finding of own) lines.push(...findingMarkdown(finding, figures));
  }
  lines.push("## Not repeated", "", markdownTable(["paper", "where", "why"], leftOutRows(findings)));
  return `${lines.join("\n").trimEnd()}\n`;
}

/** Returns the rows for the papers that the findings belong to. */
function leftOutRows(findings: readonly Finding[]): string[][] {
  const papers = new Set(findings.map((f) => f.paper));
  return LEFT_OUT.filter((l) => papers.has(l.paper)).map(({ paper, where, why }) => [
    PAPERS[paper].split(" (")[0] ?? paper,
    where,
    why,
  ]);
}

function headlineTable(
  findings: readonly Finding[],
  name: (finding: Finding) => string = (finding) => finding.id,
): string {
  return markdownTable(
    ["", "claim", "as written", "ours", "verdict"],
    findings.map((f) => [`${name(f)} ${f.where}`, f.claim, f.literal ?? "–", f.ours, `**${f.verdict}**`]),
  );
}

function findingMarkdown(finding: Finding, figures: string): string[] {
  const { id, where, title, claim, setting, literal, ours, verdict, why } = finding;
  return [
    `### <a id="${id}"></a>${title} (${where})`,
    "",
    `- Setting: ${setting}.`,
    `- Paper: ${claim}.`,
    ...(literal === null ? [] : [`- As written: ${literal}.`]),
    `- Ours: ${ours}.`,
    `- **${verdict[0]?.toUpperCase()}${verdict.slice(1)}.** ${why}`,
    ...finding.thresholds.map((t) => `- ${isMet(t) ? "Reached" : "**Not reached**"}: ${thresholdText(t)}.`),
    "",
    markdownTable(finding.table.columns, finding.table.rows),
    "",
    ...finding.figures.flatMap((figure, i) => [
      `![${figure.title}](${figures}/${figureName(finding, i)})`,
      "",
    ]),
  ];
}

export function thresholdText({ what, value, limit, sense, quantity, reference }: Threshold): string {
  const beside =
    reference === undefined ? "" : `; reference simulation ${writeQuantity(reference, quantity)}`;
  return `${what}: ${writeQuantity(value, quantity)} (${sense} ${writeQuantity(limit, quantity)}${beside})`;
}

export function markdownTable(columns: readonly string[], rows: readonly (readonly string[])[]): string {
  const cell = (text: string) => text.replaceAll("|", "\\|").replaceAll("\n", " ");
  const line = (cells: readonly string[]) => `| ${cells.map(cell).join(" | ")} |`;
  return [line(columns), line(columns.map(() => "---")), ...rows.map(line)].join("\n");
}

export function renderHtml(reproduction: Reproduction, command: string): string {
  const { findings, scale, seed } = reproduction;
  const groups = byPaper(findings).map(({ paper, own }) =>
    own.map((f) => findingHtml(f, PAPERS[paper])).join("\n"),
  );
  return renderStaticPage({
    title: "Reproduction · hoptime",
    command: "hoptime reproduce",
    heading: "The papers, repeated",
    span: `${findings.length} tables and figures · scale ${scale} · seed ${seed}`,
    parts: [
      tiles(headline(reproduction)),
      card("all", "All findings", overview(findings)),
      ...groups,
      card(
        "left-out",
        "Not repeated",
        table(
          ["paper", "where", "why"].map((title) => ({ title, text: true })),
          leftOutRows(findings).map((row) => row.map(escapeXml)),
        ),
      ),
    ],
    remark: command,
  });
}

function headline(reproduction: Reproduction): Tile[] {
  const met = allThresholds(reproduction);
  const reached = met.filter(({ threshold }) => isMet(threshold)).length;
  return [
    ...VERDICTS.map((verdict): Tile => {
      const own = reproduction.findings.filter((f) => f.verdict === verdict);
      return {
        name: `Claim ${verdict}`,
        value: String(own.length),
        detail: `of ${reproduction.findings.length}`,
      };
    }),
    {
      name: "Levels reached",
      value: `${reached} of ${met.length}`,
      detail: "of a right implementation",
      tone: reached === met.length ? "good" : "bad",
    },
  ];
}

function overview(findings: readonly Finding[]): string {
  return table(
    [
      { title: "", text: true },
      { title: "paper", text: true },
      { title: "as written", text: true, extra: true },
      { title: "ours", text: true },
      { title: "verdict", text: true },
    ],
    findings.map((f) => [
      `<a href="#${f.id}">${escapeXml(f.id)}</a>`,
      proseHtml(f.claim),
      proseHtml(f.literal ?? "–"),
      proseHtml(f.ours),
      escapeXml(f.verdict),
    ]),
  );
}

/** Keeps numbers and units on the same line. */
function proseHtml(text: string): string {
  return escapeXml(text.replace(/(\d|±) (?=%|[µmn]?s\b|Hz\b|bits?\b|\d)/gu, "$1\u00a0"));
}

function findingHtml(finding: Finding, paper: string): string {
  const { id, where, title, claim, setting, literal, ours, verdict, why } = finding;
  const facts: [string, string][] = [
    ["Setting", setting],
    ["Paper", claim],
    ...(literal === null ? [] : [["As written", literal] as [string, string]]),
    ["Ours", ours],
    [`${verdict[0]?.toUpperCase()}${verdict.slice(1)}`, why],
    ...finding.thresholds.map((t): [string, string] => [
      isMet(t) ? "Reached" : "Not reached",
      thresholdText(t),
    ]),
  ];
  const list = facts.map(([name, text]) => `<li><b>${escapeXml(name)}</b>: ${proseHtml(text)}</li>`).join("");
  const figures = finding.figures.map((figure) => {
    const { columns, rows } = figureTable(figure);
    const behind = rows.length > 200 ? "" : details(columns, rows);
    return `${picture(drawFigure(figure))}${behind}`;
  });
  return card(
    id,
    `${title} (${paper.split(" (")[0]}, ${where})`,
    `<ul class="sentences">${list}</ul>`,
    table(
      finding.table.columns.map((column, i) => ({ title: column, text: i === 0 })),
      finding.table.rows.map((row) => row.map(escapeXml)),
    ),
    ...figures,
  );
}

function details(columns: readonly string[], rows: readonly (readonly string[])[]): string {
  return `<details><summary>The figure as a table</summary>${table(
    columns.map((title) => ({ title, text: true })),
    rows.map((row) => row.map(escapeXml)),
  )}</details>`;
}
