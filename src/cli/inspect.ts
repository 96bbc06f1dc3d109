import { Command } from "commander";
export function inspectCommand(): Command {
  return new Command("inspect");
}
