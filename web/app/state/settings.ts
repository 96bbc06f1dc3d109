/** The viewer's settings, stored in this browser: colours and time zone. The token is stored until the tab is closed. */
import { effect, signal } from "@preact/signals";
import { COLOURS_CHOSEN } from "../../design/theme.ts";

export type ThemeName = "system" | "light" | "dark";

function stored<T extends string>(name: string, allowed: readonly T[], otherwise: T): T {
  const value = read(localStorage, name) as T | null;
  return value !== null && allowed.includes(value) ? value : otherwise;
}

/** Storage may be forbidden; then settings last as long as the page. */
function read(storage: Storage, name: string): string | null {
  try {
    return storage.getItem(`hoptime.${name}`);
  } catch {
    return null;
  }
}

function write(storage: Storage, name: string, value: string): void {
  try {
    storage.setItem(`hoptime.${name}`, value);
  } catch {
    // Storage is not available.
  }
}

export const theme = signal<ThemeName>(stored("theme", ["system", "light", "dark"], "system"));
export const utc = signal(stored("zone", ["local", "utc"], "local") === "utc");
export const token = signal(read(sessionStorage, "token") ?? "");
/** Counts colour changes, so that canvases are redrawn. */
export const coloursChanged = signal(0);

const MEDIA: Record<ThemeName, string> = {
  system: "screen and (prefers-color-scheme: dark)",
  light: "not all",
  dark: "screen",
};

export function watchSettings(): void {
  const dark = document.getElementById("dark") as HTMLLinkElement;
  const changed = () => {
    coloursChanged.value++;
    dispatchEvent(new Event(COLOURS_CHOSEN));
  };
  effect(() => {
    dark.media = MEDIA[theme.value];
    write(localStorage, "theme", theme.value);
    requestAnimationFrame(changed);
  });
  effect(() => write(localStorage, "zone", utc.value ? "utc" : "local"));
  effect(() => write(sessionStorage, "token", token.value));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
  const root = document.documentElement;
  addEventListener("beforeprint", () => {
    root.setAttribute("data-print", "");
    changed();
  });
  addEventListener("afterprint", () => {
    root.removeAttribute("data-print");
    changed();
  });
}
