/** Escapes untrusted text (names, comments, records, cells, topologies) for a terminal. */

// Control characters except the line feed, line and paragraph separators, and characters that change the writing direction.
const HARMFUL = /(?!\n)[\p{Cc}\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]/gu;

function escaped(character: string): string {
  const code = character.charCodeAt(0);
  return code < 0x100
    ? `\\x${code.toString(16).padStart(2, "0")}`
    : `\\u${code.toString(16).padStart(4, "0")}`;
}

/** Writes control characters as \x1b and the like. Line feeds stay. */
export function visible(text: string): string {
  return text.replace(HARMFUL, escaped);
}

/** Writes line feeds as \n too, for text that must stay on one line. */
export function visibleLine(text: string): string {
  return visible(text).replaceAll("\n", "\\n");
}
