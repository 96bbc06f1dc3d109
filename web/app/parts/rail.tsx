import { hrefTo, screenName } from "../state/location.ts";

const ITEMS: readonly (readonly [string, string, string])[] = [
  ["overview", "Overview", "M4 5h16M4 12h16M4 19h10"],
  ["flows", "Flows", "M4 7h12l-3-3M4 7l0 0M20 17H8l3 3"],
];

/** Left; at the bottom on a phone. */
export function Rail() {
  const here = screenName.value === "segment" ? "overview" : screenName.value;
  return (
    <nav class="rail" aria-label="Screens">
      <a class="brand" href={hrefTo(["overview"])}>
        hoptime
      </a>
      {ITEMS.map(([name, title, icon]) => (
        <a key={name} href={hrefTo([name])} aria-current={here === name ? "page" : undefined}>
          <svg viewBox="0 0 24 24" width="20" height="20" aria-hidden="true">
            <path d={icon} />
          </svg>
          <span>{title}</span>
        </a>
      ))}
    </nav>
  );
}
