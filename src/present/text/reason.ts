/** Removes the code in front of a reason, which is for programs: "no-usable-cells: each row lost a packet" becomes "each row lost a packet". */
export function plainReason(reason: string): string {
  return reason.replace(/^(?:[a-z]+(?:-[a-z]+)+|overflow): /, "");
}
