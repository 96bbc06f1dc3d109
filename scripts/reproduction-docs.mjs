// Makes docs/reproduction.md and its figures anew: node scripts/reproduction-docs.mjs [DIR]. DIR: a finished run of `hoptime reproduce all`; left out, it is run.
import { execFileSync } from "node:child_process";
import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const given = process.argv[2];
const from = given ?? mkdtempSync(join(tmpdir(), "hoptime-reproduction-"));
if (!given)
  execFileSync(process.execPath, [join(root, "dist/cli/main.js"), "reproduce", "all", "--out", from], {
    stdio: ["ignore", "ignore", "inherit"],
  });
const to = join(root, "docs", "reproduction");
rmSync(to, { recursive: true, force: true });
mkdirSync(to);
for (const name of readdirSync(join(from, "figures")))
  copyFileSync(join(from, "figures", name), join(to, name));
const page = readFileSync(join(from, "reproduction.md"), "utf8").replaceAll("](figures/", "](reproduction/");
writeFileSync(join(root, "docs", "reproduction.md"), page);
if (!given) rmSync(from, { recursive: true, force: true });
