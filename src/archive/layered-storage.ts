/**
 * A directory with an object store behind it: files missing in the directory, because they were removed there or belong to another worker, are read from the
 * store. Files are named as in the directory.
 */
import type { ObjectStorage } from "./objects/object-storage.ts";
import { FILES, type OpenFile, type RecordStorage, type StorageEntry } from "./storage.ts";

export class LayeredStorage implements RecordStorage {
  readonly #directory: string;
  readonly #objects: ObjectStorage;

  constructor(directory: string, objects: ObjectStorage) {
    this.#directory = directory;
    this.#objects = objects;
  }

  below(folder: string, name: string): string {
    return FILES.below(folder, name);
  }

  list(folder: string): StorageEntry[] {
    const found = new Map<string, StorageEntry>();
    for (const entry of [...this.#objects.list(this.#behind(folder)), ...FILES.list(folder)])
      found.set(entry.name, entry);
    return [...found.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  names(folder: string): string[] {
    return [...new Set([...this.#objects.names(this.#behind(folder)), ...FILES.names(folder)])];
  }

  open(file: string): OpenFile {
    return FILES.sizeOf(file) > 0 ? FILES.open(file) : this.#objects.open(this.#behind(file));
  }

  sizeOf(file: string): number {
    return FILES.sizeOf(file) || this.#objects.sizeOf(this.#behind(file));
  }

  text(file: string): string | null {
    return FILES.text(file);
  }

  check(root: string): void {
    FILES.check(root);
  }

  #behind(file: string): string {
    const rest = file
      .slice(this.#directory.length)
      .split(/[\\/]/)
      .filter((part) => part !== "");
    return [this.#objects.root, ...rest].join("/");
  }
}
