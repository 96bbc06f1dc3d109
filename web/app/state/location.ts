/** The route. The URL contains the whole view after `#`, so it works with any server and any prefix: `#/segment/A/B?last=1h&estimator=lda`. */
import { computed, signal } from "@preact/signals";

export interface Place {
  path: readonly string[];
  params: URLSearchParams;
}

/** Parameters that links to other screens keep. */
const GLOBAL = ["last", "since", "until"];

const current = signal<Place>(parse(location.hash));
addEventListener("hashchange", () => {
  current.value = parse(location.hash);
});

export const place = computed(() => current.value);
export const screenName = computed(() => current.value.path[0] ?? "overview");

function parse(hash: string): Place {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const parts = path.split("/").filter((p) => p !== "");
  return { path: parts.map(decoded), params: new URLSearchParams(query) };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export function param(name: string): string | null {
  return current.value.params.get(name);
}

/** Returns a link to a screen with the current global parameters and its own. */
export function hrefTo(path: readonly string[], own: Record<string, string | null | undefined> = {}): string {
  const params = new URLSearchParams();
  for (const name of GLOBAL) {
    const value = current.value.params.get(name);
    if (value !== null) params.set(name, value);
  }
  for (const [name, value] of Object.entries(own))
    if (value === null || value === undefined || value === "") params.delete(name);
    else params.set(name, value);
  return hashOf(path, params);
}

function hashOf(path: readonly string[], params: URLSearchParams): string {
  // Empty parts (a segment without a label) are dropped only at the end, so that the others keep their positions.
  const text = [...path];
  while (text.at(-1) === "") text.pop();
  const query = params.toString();
  return `#/${text.map(encodeURIComponent).join("/")}${query === "" ? "" : `?${query}`}`;
}

export function go(href: string): void {
  location.hash = href;
}

/** Like going to a link, but without an entry in the history. */
export function goInstead(href: string): void {
  history.replaceState(history.state, "", href);
  current.value = parse(href);
}

/** Changes parameters of this screen; with `replace` there is no entry in the history (while typing). */
export function setParams(changes: Record<string, string | null>, replace = false): void {
  const params = new URLSearchParams(current.value.params);
  for (const [name, value] of Object.entries(changes))
    if (value === null || value === "") params.delete(name);
    else params.set(name, value);
  const href = hashOf(current.value.path, params);
  if (href === location.hash) return;
  if (replace) goInstead(href);
  else location.hash = href;
}
