import { useState } from "preact/hooks";
import { token } from "../state/settings.ts";

/** The form for a token, if the collector requires one. */
export function TokenForm({ reason }: { reason: string }) {
  const [text, setText] = useState("");
  return (
    <form
      class="card token-form"
      onSubmit={(event) => {
        event.preventDefault();
        token.value = text.trim();
      }}
    >
      <h1>This collector needs a token</h1>
      <p class="lead">
        {token.value === "" ? "Create one with" : `The token was refused (${reason}). Create another with`}{" "}
        <code>hoptime token add --scope read</code> on the collector's host. It is kept until this tab closes.
      </p>
      <label>
        Token{" "}
        <input
          type="password"
          autocomplete="off"
          value={text}
          onInput={(e) => setText(e.currentTarget.value)}
          placeholder="hop_…"
        />
      </label>{" "}
      <button type="submit" class="plain-button">
        Open
      </button>
    </form>
  );
}
