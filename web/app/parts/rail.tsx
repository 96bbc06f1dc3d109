import { hrefTo, screenName } from "../state/location.ts";

const ITEMS: readonly (readonly [string, string, string])[] = [
  ["overview", "Overview", "M4 5h16M4 12h16M4 19h10"],
  ["map", "Map", "M5 6a2 2 0 1 0 .1 0M19 6a2 2 0 1 0 .1 0M12 17a2 2 0 1 0 .1 0M7 8l4 9M17 8l-4 9M7 8h10"],
  ["segment", "Segments", "M4 12a2 2 0 1 0 .1 0M20 12a2 2 0 1 0 .1 0M7 14h3l2-7 2 9 1-2h2"],
  ["flows", "Flows", "M4 7h12l-3-3M4 7l0 0M20 17H8l3 3"],
  ["packets", "Packets", "M4 8l8-4 8 4v8l-8 4-8-4zM4 8l8 4 8-4M12 12v8"],
  ["compare", "Compare", "M4 6h7v12H4zM13 6h7v12h-7zM7.5 10v4M16.5 9v6"],
  ["taps", "Taps", "M12 4v9M7 9l5 5 5-5M5 19h14"],
  ["alerts", "Alerts", "M6 16V11a6 6 0 0 1 12 0v5l1.5 2h-15zM10 21h4"],
];

/** Navigation at the left; on a phone at the bottom. */
export function Rail() {
  const here = screenName.value;
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
