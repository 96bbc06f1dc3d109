/**
 * Compares two captures in this browser: the page of `hoptime page` (web/compare) inside this one. Its parts are loaded from the collector when it is first
 * opened. It has its own style, so it is in a shadow tree.
 */
import { useEffect, useRef } from "preact/hooks";
import type { Place } from "../../compare/page.ts";
import { Refusal } from "../api/client.ts";
import { useAnswer } from "../api/use-answer.ts";
import { Answered } from "../parts/states.tsx";

declare global {
  interface Window {
    hoptimeCompare?: (place: Place) => void;
  }
}

/** Kept while the viewer looks at other screens. */
let made: Promise<HTMLElement> | null = null;

function loaded(node: HTMLLinkElement | HTMLScriptElement, into: Node): Promise<void> {
  return new Promise((resolve, reject) => {
    node.onload = () => resolve();
    node.onerror = () =>
      reject(
        new Refusal(0, "no-answer", "The compare page did not load", "is hoptime collect still running?"),
      );
    into.appendChild(node);
  });
}

async function make(): Promise<HTMLElement> {
  const host = document.createElement("div");
  host.className = "compare";
  // Style sheets load only in the document itself.
  document.body.append(host);
  const shadow = host.attachShadow({ mode: "open" });
  const page = document.createElement("div");
  page.id = "page";
  page.className = "inside";
  const style = Object.assign(document.createElement("link"), {
    ...{ rel: "stylesheet", href: "compare/page.css" },
  });
  const script = Object.assign(document.createElement("script"), { src: "compare/page.js" });
  try {
    await Promise.all([loaded(style, shadow), loaded(script, document.head)]);
  } finally {
    host.remove();
  }
  shadow.append(page);
  window.hoptimeCompare?.({
    ...{ page, inside: true },
    startWorker: async () => new Worker("compare/worker.js"),
  });
  return host;
}

export function CompareScreen() {
  const asked = useAnswer("compare", () => {
    made ??= make().catch((error) => {
      made = null;
      throw error;
    });
    return made;
  });
  return (
    <Answered asked={asked} what="the page that compares">
      {(host) => <Held node={host} />}
    </Answered>
  );
}

function Held({ node }: { node: HTMLElement }) {
  const frame = useRef<HTMLDivElement>(null);
  useEffect(() => {
    frame.current?.append(node);
    return () => node.remove();
  }, [node]);
  return <div ref={frame} />;
}
