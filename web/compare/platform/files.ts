/** The captures that were given to the page, by the names that the rest knows them by. */
const files = new Map<string, File>();

/** Names them; of two with the same name the second is told apart. */
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
