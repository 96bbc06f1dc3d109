import { setParams } from "../state/location.ts";

/** A column head; it sorts if it has a name. */
export function SortHead({
  name,
  title,
  kind,
  sort,
  down,
}: {
  name: string;
  title: string;
  kind: string;
  sort: string;
  down: boolean;
}) {
  if (name === "")
    return (
      <th scope="col" class={kind}>
        {title}
      </th>
    );
  const own = sort === name;
  return (
    <th scope="col" class={kind} aria-sort={own ? (down ? "descending" : "ascending") : "none"}>
      <button
        type="button"
        class="sort"
        onClick={() => setParams({ sort: name, order: own ? (down ? "up" : "down") : null })}
      >
        {title}
        <span aria-hidden="true">{own ? (down ? " ↓" : " ↑") : ""}</span>
      </button>
    </th>
  );
}
