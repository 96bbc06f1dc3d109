/** The switch between a logarithmic and a linear axis of delays. */
import { choice } from "./elements.ts";

export function delayAxis(log: boolean, minimum: number, onChange: (log: boolean) => void) {
  return choice(
    "Delay axis",
    [
      {
        value: "log",
        label: "Log",
        unavailable:
          minimum > 0 ? undefined : "A logarithmic axis needs delays above zero; some here are not.",
      },
      { value: "linear", label: "Linear" },
    ],
    log ? "log" : "linear",
    (kind) => onChange(kind === "log"),
  );
}
