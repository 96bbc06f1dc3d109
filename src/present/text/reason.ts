/** Reasons of answers as people read them: "no-usable-cells: each row lost a packet" without its code, which is for programs. */
export function plainReason(reason: string): string {
  return reason.replace(/^(?:[a-z]+(?:-[a-z]+)+|overflow): /, "");
}
