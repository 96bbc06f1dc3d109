/** Text that came from elsewhere (names, comments, records, cells, topologies), made harmless for a terminal. */

// Controls but the line feed, line and paragraph separators, and what turns the direction of writing.
const HARMFUL = /(?!\n)[\p{Cc}\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]/gu;

function escaped(character: string): string {
  const code = character.charCodeAt(0);
  return code < 0x100
    ? `\\x${code.toString(16).padStart(2, "0")}`
    : `\\u${code.toString(16).padStart(4, "0")}`;
}

/** Characters that a terminal obeys are written as \x1b and the like. Lines stay lines. */
export function visible(text: string): string {
  return text.replace(HARMFUL, escaped);
}

/** The same for what must stay on one line. */
export function visibleLine(text: string): string {
  return visible(text).replaceAll("\n", "\\n");
}
