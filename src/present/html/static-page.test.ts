import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { findPackageFile } from "../../base/package-file.ts";
import { planUpgrades } from "../../network/plan/plan.ts";
import { parseTopology } from "../../network/topology/topology-format.ts";
import { renderPlanHtml } from "./plan-html.ts";
import { card, notesCard, renderStaticPage, table, tiles } from "./static-page.ts";

const styleOf = (html: string) => /<style>([\s\S]*?)<\/style>/.exec(html)?.[1] ?? "";
const page = (parts: string[]) =>
  renderStaticPage({ title: "t", command: "hoptime x", heading: "<h>", span: "a & b", parts, remark: "r" });

describe("the shell of reports without script", () => {
  it("escapes what it is given as text, and lets no style or script in but its own", () => {
    const html = page([card("c", "<title>", "<p>kept</p>")]);
    expect(html).toContain("<h1>&lt;h&gt;</h1>");
    expect(html).toContain("a &amp; b");
    expect(html).toContain("<h2>&lt;title&gt;</h2><p>kept</p>");
    expect(html).not.toMatch(/HOPTIME:|BUILD:|<script/);
    const hash = createHash("sha256").update(styleOf(html)).digest("base64");
    expect(html).toContain(`default-src 'none'; style-src 'sha256-${hash}'`);
  });

  it("has the colours of compare's report, light and dark", () => {
    const compare = readFileSync(findPackageFile("web/report.html") ?? "", "utf8");
    const tokens = (html: string) =>
      [...styleOf(html).matchAll(/:root[^{]*\{[^}]*--card[^}]*\}/g)].map(([m]) => m);
    expect(tokens(page([]))).toHaveLength(2);
    expect(tokens(page([]))).toEqual(tokens(compare));
  });

  it("leaves out empty parts, and marks columns that narrow screens have no room for", () => {
    expect(notesCard([])).toBe("");
    expect(tiles([{ name: "Loss", value: "0 %", detail: "", tone: "good" }])).toContain('class="tile good"');
    expect(
      table(
        [
          { title: "a", text: true },
          { title: "b", extra: true },
        ],
        [["1", "2"]],
      ),
    ).toContain('<tr><td class="text">1</td><td class="extra">2</td></tr>');
  });

  it("needs no style attribute, which its policy would refuse", () => {
    const t = parseTopology(Buffer.from("from,to,weight\na,b,1\nb,c,1\nc,a,3\n"), "net.csv");
    const html = renderPlanHtml(t, planUpgrades(t, { upgrade: 2 }));
    expect(html).not.toMatch(/ style=/);
    expect(html.match(/<svg /g)).toHaveLength(3);
  });
});
