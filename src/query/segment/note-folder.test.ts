import { expect, it } from "vitest";
import { foreignNote } from "../../estimators/cells/foreign.ts";
import { NoteFolder } from "./note-folder.ts";

it("epochs that say the same with numbers that are rounded differently are one note", () => {
  const folder = new NoteFolder();
  folder.add([foreignNote(5, 1000)], 1000);
  folder.add([foreignNote(1, 5000)], 5000);
  expect(folder.texts()).toEqual([`${foreignNote(1, 5000)} (or alike, in 2 epochs)`]);
});
