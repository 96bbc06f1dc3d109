/** The page by itself; or, on a page that has no place for it, the part of another: the collector's page takes it from here and gives it a place. */
import { watchPrinting } from "../design/theme.ts";
import { ComparePage, type Place } from "./page.ts";

declare global {
  interface Window {
    hoptimeCompare?: (place: Place) => void;
  }
}

/** Its program stands in the page, packed: a page that was opened from disk may load nothing. */
async function startWorker(): Promise<Worker> {
  const packed = Uint8Array.from(atob(document.getElementById("worker")?.textContent ?? ""), (c) =>
    c.charCodeAt(0),
  );
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const program = await new Response(stream).blob();
  const url = URL.createObjectURL(new Blob([program], { type: "text/javascript" }));
  const started = new Worker(url);
  URL.revokeObjectURL(url);
  return started;
}

const page = document.getElementById("page");
if (page) {
  watchPrinting();
  new ComparePage({ page, startWorker, inside: false });
} else
  window.hoptimeCompare = (place) => {
    new ComparePage(place);
  };
