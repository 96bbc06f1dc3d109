/** Runs before the page's own program is there: asks for what the overview shows first. Taken by `request` (api/client.ts) if it is what the page asks for. */
export interface Early {
  /** As the page asks: path and query. */
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
  // Others the page does not ask for (state/time-range.ts).
  if (!/^(5m|15m|1h|6h|1d|7d|30d)$/.test(last)) return;
  const path = `v1/overview?${new URLSearchParams({ last, steps: "0" })}`;
  const response = fetch(path, token === "" ? {} : { headers: { authorization: `Bearer ${token}` } });
  // A failure is that of who takes it.
  response.catch(() => {});
  window.hoptimeEarly = { path, token, response };
}

start();
