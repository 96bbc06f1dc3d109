// Makes docs/reproduction.md, its figures and the table in README.md: node scripts/reproduction-docs.mjs [--map FILE] [DIR [SEEDS]]. DIR: a finished run of
// `hoptime reproduce all`; without DIR it is run here, with FILE as the map (Rocketfuel's 1239.weights.intra is the paper's network). SEEDS: a finished run of
// `hoptime reproduce … --seeds N`, for docs/reproduction-seeds.md.
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
const [, , ...words] = process.argv;
const mapAt = words.indexOf("--map");
const map = mapAt < 0 ? [] : words.splice(mapAt, 2);
const [given, seeds] = words;
const from = given ?? mkdtempSync(join(tmpdir(), "hoptime-reproduction-"));
if (!given)
  execFileSync(
    process.execPath,
    [join(root, "dist/cli/main.js"), "reproduce", "all", "--out", from, ...map],
    {
      stdio: ["ignore", "ignore", "inherit"],
    },
  );
const to = join(root, "docs", "reproduction");
rmSync(to, { recursive: true, force: true });
mkdirSync(to);
for (const name of readdirSync(join(from, "figures")))
  copyFileSync(join(from, "figures", name), join(to, name));
const page = readFileSync(join(from, "reproduction.md"), "utf8").replaceAll("](figures/", "](reproduction/");
writeFileSync(join(root, "docs", "reproduction.md"), page);

// One finding per paper for the README: its main result. Claims and numbers are in docs/reproduction.md.
const HEADLINE = ["lda-6", "mplane-9", "lds-10", "rli-7", "maple-6", "colate-6"];
const { findings, seed, scale } = JSON.parse(readFileSync(join(from, "reproduction.json"), "utf8"));
const rows = HEADLINE.map((id) => {
  const finding = findings.find((f) => f.id === id);
  if (!finding) throw new Error(`${from} has no ${id}: run hoptime reproduce all`);
  const { where, title, verdict } = finding;
  return `| [${id}](docs/reproduction.md#${id}) | ${title} (${where}) | ${verdict} |`;
});
const table = [
  "| experiment | measures | the paper's claim |",
  "| --- | --- | --- |",
  ...rows,
  "",
  `"Holds for a class" means for part of the traffic. Scale ${scale}, seed ${seed}.`,
].join("\n");
const [start, end] = ["<!-- reproduction -->", "<!-- /reproduction -->"];
const readme = readFileSync(join(root, "README.md"), "utf8");
const at = [readme.indexOf(start), readme.indexOf(end)];
if (at[0] < 0 || at[1] < at[0]) throw new Error(`README.md has no ${start} … ${end}`);
writeFileSync(
  join(root, "README.md"),
  `${readme.slice(0, at[0] + start.length)}\n\n${table}\n\n${readme.slice(at[1])}`,
);
if (seeds) copyFileSync(join(seeds, "seeds.md"), join(root, "docs", "reproduction-seeds.md"));
// The formatter formats the tables.
const written = ["README.md", "docs/reproduction.md", ...(seeds ? ["docs/reproduction-seeds.md"] : [])];
execFileSync(join(root, "node_modules/.bin/biome"), ["format", "--write", ...written], {
  cwd: root,
  stdio: ["ignore", "ignore", "inherit"],
});
if (!given) rmSync(from, { recursive: true, force: true });
