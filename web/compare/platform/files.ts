/** The captures given to the page, by name. */
const files = new Map<string, File>();

/** Assigns names; a second file of the same name gets a number. */
export function nameFiles(given: readonly File[]): string[] {
  files.clear();
  return given.map((file) => {
    let name = file.name;
    for (let n = 2; files.has(name); n++) name = `${file.name} (${n})`;
    files.set(name, file);
    return name;
  });
}

export const fileOf = (name: string): File | undefined => files.get(name);
