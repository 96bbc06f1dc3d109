/** Downloads a file in the browser. */
export function download(name: string, blob: Blob): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name.replace(/[^\p{L}\p{N}.-]+/gu, "_").slice(-120);
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
