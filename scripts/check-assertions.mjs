// Checks non-null assertions (`x!`) in src/: they are allowed only on elements of number arrays, which numeric loops use. Elsewhere the type or the code must show
// that the value exists. Exits 1 and lists each offence. The types come from the type checker.
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { SyntaxKind } from "typescript/unstable/ast";
import { API } from "typescript/unstable/sync";

/** Number arrays, as the compiler prints their types: typed arrays, arrays and tuples of numbers. */
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

/** Returns each assertion below a node, innermost last. */
function* assertionsOf(node) {
  if (node.kind === SyntaxKind.NonNullExpression) yield node;
  const children = [];
  node.forEachChild((child) => void children.push(child));
  for (const child of children) yield* assertionsOf(child);
}

function isNumbers(type) {
  if (type === undefined) return false;
  const array = project.checker.getNonNullableType(type) ?? type;
  // An alias is printed by its own name; its symbol has the real type.
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
