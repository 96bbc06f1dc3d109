/** Starts the page alone; or, if the document has no element for it, offers it to the collector's page, which inserts it. */
import { watchPrinting } from "../design/theme.ts";
import { ComparePage, type Place } from "./page.ts";

declare global {
  interface Window {
    hoptimeCompare?: (place: Place) => void;
  }
}

/** The worker's program is embedded in compressed form, because a page opened from disk may not load anything. */
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
