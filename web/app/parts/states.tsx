/** States instead of data: loading, empty, refused. Each says what to do. */
import type { ComponentChildren } from "preact";
import type { Asked } from "../api/use-answer.ts";

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="state" role="status">
      <p class="state-title">{title}</p>
      {children}
    </div>
  );
}

function Failed({ asked }: { asked: Pick<Asked<unknown>, "error" | "again"> }) {
  if (!asked.error) return null;
  return (
    <div class="state failed" role="alert">
      <p class="state-title">{asked.error.message}</p>
      {asked.error.hint && <p>{asked.error.hint}</p>}
      <button type="button" class="plain-button" onClick={asked.again}>
        Ask again
      </button>
    </div>
  );
}

/** Shows the content if there is an answer, otherwise the state of the request. */
export function Answered<T>({
  asked,
  what,
  children,
}: {
  asked: Asked<T>;
  what: string;
  children: (data: T) => ComponentChildren;
}) {
  if (asked.data !== null)
    return (
      <>
        {asked.error && <Failed asked={asked} />}
        {children(asked.data)}
      </>
    );
  if (asked.error) return <Failed asked={asked} />;
  return (
    <div class="state loading" role="status">
      <p class="state-title">{asked.slow && `Asking the collector for ${what} …`}</p>
    </div>
  );
}
