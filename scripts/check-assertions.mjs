// Non-null assertions (`x!`) in src/: allowed only where an array of numbers is indexed, which is what numeric loops do. Everywhere else the type
// or the code is to say why the value is there. Exits 1 and names each offence. Asks the compiler of the type check for the types.
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { SyntaxKind } from "typescript/unstable/ast";
import { API } from "typescript/unstable/sync";

/** Arrays whose elements are numbers, as the compiler writes their types: typed arrays, lists and tuples of numbers. */
const NUMBERS = [
  /^(Big)?(Uint|Int|Float)\d+(Clamped)?Array(<\w+>)?$/,
  /^(NonShared)?Buffer(<\w+>)?$/,
  /^ArrayLike<number>$/,
  /^(readonly )?number\[\]$/,
  /^(readonly )?\[(number(, )?)+\]$/,
];

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const api = new API({ cwd: root });
const config = join(root, "tsconfig.json");
const project = api.updateSnapshot({ openProjects: [config] }).getProject(config);

/** Each assertion below a node, innermost last. */
function* assertionsOf(node) {
  if (node.kind === SyntaxKind.NonNullExpression) yield node;
  const children = [];
  node.forEachChild((child) => void children.push(child));
  for (const child of children) yield* assertionsOf(child);
}

function isNumbers(type) {
  if (type === undefined) return false;
  const array = project.checker.getNonNullableType(type) ?? type;
  // An alias is written by its own name: what it stands for is its symbol's.
  const written =
    array.getAliasSymbol() === undefined ? project.checker.typeToString(array) : array.getSymbol()?.name;
  const names = (written ?? "").split(" | ");
  return names.every((name) => NUMBERS.some((pattern) => pattern.test(name)));
}

const files = project.program
  .getSourceFileNames()
  .filter((name) => relative(root, name).startsWith("src/") && !name.endsWith(".test.ts"));
const offences = [];
const known = new Map();
for (const name of files) {
  const file = project.program.getSourceFile(name);
  if (!file.text.includes("!")) continue;
  const assertions = [...assertionsOf(file)];
  const indexed = assertions.filter((node) => node.expression.kind === SyntaxKind.ElementAccessExpression);
  const types =
    indexed.length === 0
      ? []
      : project.checker.getTypeAtLocation(indexed.map((node) => node.expression.expression));
  const typeOf = new Map(indexed.map((node, i) => [node, types[i]]));
  for (const node of assertions) {
    const type = typeOf.get(node);
    if (!known.has(type)) known.set(type, isNumbers(type));
    if (known.get(type)) continue;
    const line = file.text.slice(0, node.end).split("\n").length;
    const text = file.text.slice(node.pos, node.end).trim().replaceAll(/\s+/g, " ");
    offences.push(`${relative(root, name)}:${line}: ${text}`);
  }
}
api.close();
for (const offence of offences) console.error(offence);
if (offences.length > 0)
  console.error(
    `${offences.length} non-null assertions outside of number arrays: use ??, for…of, a check that throws, or a better type`,
  );
process.exit(offences.length > 0 ? 1 : 0);
