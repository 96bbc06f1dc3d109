/** The report page: shows the data that is embedded in the page. */
import type { PageData } from "../../src/present/html/page-data.ts";
import { watchPrinting } from "../design/theme.ts";
import { append, el } from "./elements.ts";
import { reportParts } from "./report.ts";

watchPrinting();
const page = document.getElementById("page")!;
const data = JSON.parse(document.getElementById("report-data")!.textContent ?? "") as PageData;
append(page, [
  ...reportParts(data),
  el("footer", {}, `hoptime ${data.hoptime} · one file, no network needed · all times UTC`),
]);
document.documentElement.setAttribute("data-ready", "");
