import { expect, it } from "vitest";
import { foreignNote } from "../../estimators/cells/foreign.ts";
import { NoteFolder } from "./note-folder.ts";

it("epochs that say the same with numbers that are rounded differently are one note", () => {
  const folder = new NoteFolder();
  folder.add([foreignNote(5, 1000)], 1000);
  folder.add([foreignNote(1, 5000)], 5000);
  expect(folder.texts()).toEqual([`${foreignNote(1, 5000)} (similar in 2 epochs)`]);
});

it("a note about one flow and a note about several are one", () => {
  const folder = new NoteFolder();
  folder.add(["no counter for 1 flow (each lost a packet)"], 1);
  folder.add(["no counter for 2 flows (each lost a packet)"], 2);
  expect(folder.texts()).toEqual(["no counter for 2 flows (each lost a packet) (similar in 2 epochs)"]);
});
