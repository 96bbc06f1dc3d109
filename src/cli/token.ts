/** `hoptime token add|list|revoke`: manages who may send to a collector and query it. */
import { mkdirSync, statSync } from "node:fs";
import { Command } from "commander";
import { UsageError } from "../base/errors.ts";
import { type Column, formatTable } from "../present/text/table.ts";
import { pointsOf, SCOPES, type Scope, type TokenInfo, TokenStore, tokenFile } from "../server/tokens.ts";
import { choiceOption } from "./options.ts";
import { print, printJson, printText, warn } from "./output.ts";

interface Flags {
  data: string;
  scope: Scope;
  point: readonly string[];
  name: string;
  json?: boolean;
}

const EXAMPLES = `
A token is shown only once, when it is created; the collector keeps a hash of it. Changes take
effect within a second, without a restart.

Examples:
  hoptime token add --data /var/lib/hoptime --scope ingest --point A > A.token
  hoptime observe a.pcap --point A --to https://collector:8787 --token-file A.token
  hoptime token add --data /var/lib/hoptime --scope ingest --point A --point B > router.token
  hoptime token add --data /var/lib/hoptime --scope read --name dashboard
  hoptime token list --data /var/lib/hoptime --json
  hoptime token revoke --data /var/lib/hoptime 0a1b2c3d4e5f
`;

export function tokenCommand(): Command {
  const store = ({ data }: Flags) => new TokenStore(tokenFile(data));
  /** The token store of an existing collector directory. */
  const existing = (flags: Flags) => {
    if (!statSync(flags.data, { throwIfNoEntry: false })?.isDirectory())
      throw new UsageError(
        "no-such-file",
        `${flags.data}: no such directory`,
        "give the collector's directory",
        {
          parameter: "data",
        },
      );
    return store(flags);
  };
  const command = new Command("token")
    .description("Creates, lists and revokes the tokens of a collector.")
    .addHelpText("after", EXAMPLES);
  command
    .command("add")
    .description("create a token and print it")
    .requiredOption("--data <dir>", "directory of the collector")
    .option(
      "--scope <what>",
      "ingest: send the records of its points; read: ask questions; admin: everything",
      choiceOption("--scope", SCOPES),
      "read",
    )
    .option(
      "--point <name>",
      "with --scope ingest: the point; repeated, the points of a tap on several interfaces",
      (name: string, others: readonly string[]) => [...others, name],
      [],
    )
    .option("--name <text>", "a name for the list of tokens", "")
    .action(async (flags: Flags) => {
      mkdirSync(flags.data, { recursive: true, mode: 0o750 });
      const { token, info } = await store(flags).add(flags.name, flags.scope, ...flags.point);
      await print([`${token}\n`]);
      warn(`hoptime: token ${info.id}, scope ${info.scope}${forPoints(info)}; it is not shown again`);
    });
  command
    .command("list")
    .description("list the tokens")
    .requiredOption("--data <dir>", "directory of the collector")
    .option("--json", "print the list as JSON")
    .action(async (flags: Flags) => {
      const tokens = existing(flags).list();
      if (flags.json) return await printJson(tokens);
      await printText(tokens.length === 0 ? "no tokens\n" : `${formatTable(COLUMNS, tokens)}\n`);
    });
  command
    .command("revoke")
    .description("revoke a token, by its id")
    .argument("<id>", "id of the token, from hoptime token list")
    .requiredOption("--data <dir>", "directory of the collector")
    .action(async (id: string, flags: Flags) => {
      const revoked = await existing(flags).revoke(id);
      warn(`hoptime: revoked token ${id}, scope ${revoked.scope}${forPoints(revoked)}`);
    });
  return command;
}

function forPoints(token: TokenInfo): string {
  const points = pointsOf(token);
  return points.length === 0 ? "" : ` for ${points.join(", ")}`;
}

const COLUMNS: Column<TokenInfo>[] = [
  { title: "id", align: "left", value: (t) => t.id },
  { title: "scope", align: "left", value: (t) => t.scope },
  { title: "point", align: "left", value: (t) => pointsOf(t).join(", ") },
  { title: "made", align: "left", value: (t) => t.created.slice(0, 10) },
  { title: "name", align: "left", value: (t) => t.name },
];
