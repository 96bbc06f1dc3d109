/** Actions of a card: copy the command for the same result, CSV, PNG, print. */
import { useState } from "preact/hooks";
import { download } from "./download.ts";

export function Actions({
  command,
  csv,
  png,
  name,
}: {
  command?: string;
  csv?: () => string;
  png?: () => void;
  name: string;
}) {
  const [open, setOpen] = useState(false);
  const [shown, setShown] = useState(false);
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    setShown(true);
    try {
      await navigator.clipboard.writeText(command ?? "");
      setCopied(true);
    } catch {
      // The clipboard is not allowed here: the text is shown, to be copied by hand.
      setCopied(false);
    }
  };
  return (
    <div class={open ? "actions open" : "actions"}>
      <button
        type="button"
        class="plain-button more narrow-only"
        aria-expanded={open}
        onClick={() => setOpen(!open)}
      >
        Copy or save
      </button>
      {command && (
        <button type="button" class="plain-button" onClick={() => void copy()}>
          Copy as command
        </button>
      )}
      {csv && (
        <button
          type="button"
          class="plain-button"
          onClick={() => download(`${name}.csv`, new Blob([csv()], { type: "text/csv" }))}
        >
          Save CSV
        </button>
      )}
      {png && (
        <button type="button" class="plain-button" onClick={png}>
          Save PNG
        </button>
      )}
      {shown && (
        <div class="command" role="status">
          <code>{command}</code> {copied && <span class="good-text">Copied</span>}
        </div>
      )}
    </div>
  );
}

/** Quotes a cell if necessary, and prevents spreadsheets from reading it as a formula. */
export function csvOf(rows: readonly (readonly (string | number | null)[])[]): string {
  const cell = (value: string | number | null) => {
    if (value === null) return "";
    if (typeof value === "number") return String(value);
    const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return `${rows.map((r) => r.map(cell).join(",")).join("\n")}\n`;
}
