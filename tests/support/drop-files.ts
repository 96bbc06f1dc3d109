/** Drops files on a page in a browser, as from a file manager. */
import { readFileSync } from "node:fs";
import { basename } from "node:path";
import type { Page } from "playwright-core";

/** For small files: their contents go through the test's own connection. */
export async function dropFiles(page: Page, target: string, paths: readonly string[]): Promise<void> {
  const files = paths.map((path) => ({ name: basename(path), bytes: readFileSync(path).toString("base64") }));
  const transfer = await page.evaluateHandle(`(() => {
    const transfer = new DataTransfer();
    for (const { name, bytes } of ${JSON.stringify(files)})
      transfer.items.add(new File([Uint8Array.from(atob(bytes), (c) => c.charCodeAt(0))], name));
    return transfer;
  })()`);
  for (const event of ["dragenter", "dragover", "drop"])
    await page.dispatchEvent(target, event, { dataTransfer: transfer });
}
