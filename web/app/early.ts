/**
 * Runs before the page's program is loaded and requests what the overview shows first. `request` (api/client.ts) takes the response if it needs exactly this.
 */
export interface Early {
  /** Path and query, as the page requests them. */
  path: string;
  token: string;
  response: Promise<Response>;
}

declare global {
  interface Window {
    hoptimeEarly?: Early;
  }
}

function start(): void {
  const [place = "", query = ""] = location.hash.slice(1).split("?");
  const params = new URLSearchParams(query);
  if ((place !== "" && place !== "/" && place !== "/overview") || params.has("since")) return;
  let token = "";
  try {
    token = sessionStorage.getItem("hoptime.token") ?? "";
  } catch {
    // Storage may be forbidden.
  }
  const last = params.get("last") ?? "1h";
  // The page does not request other ranges (state/time-range.ts).
  if (!/^(5m|15m|1h|6h|1d|7d|30d)$/.test(last)) return;
  const path = `v1/overview?${new URLSearchParams({ last, steps: "0" })}`;
  const response = fetch(path, token === "" ? {} : { headers: { authorization: `Bearer ${token}` } });
  // An error is handled by whoever takes the response.
  response.catch(() => {});
  window.hoptimeEarly = { path, token, response };
}

start();
