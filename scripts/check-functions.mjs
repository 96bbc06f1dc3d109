// Checks the size of functions: at most 80 lines and a cyclomatic complexity of 25 in src/, at most 8 parameters in kernels/. A function that is better in one
// piece gives the reason in a comment directly above it, or first in its body: `// long: …`. Exits 1 and lists each offence; with `--list` it only lists them.
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseAst } from "rolldown/parseAst";

const MAX_LINES = 80;
const MAX_COMPLEXITY = 25;
const MAX_KERNEL_PARAMETERS = 8;

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const FUNCTIONS = new Set(["FunctionDeclaration", "FunctionExpression", "ArrowFunctionExpression"]);
const BRANCHES = new Set([
  "IfStatement",
  "ConditionalExpression",
  "ForStatement",
  "ForInStatement",
  "ForOfStatement",
  "WhileStatement",
  "DoWhileStatement",
  "CatchClause",
  "LogicalExpression",
]);
const LOGICAL_ASSIGNMENTS = new Set(["&&=", "||=", "??="]);

/** Returns the child nodes of a node of any kind. */
function* children(node) {
  for (const value of Object.values(node))
    for (const child of Array.isArray(value) ? value : [value])
      if (child !== null && typeof child === "object" && typeof child.type === "string") yield child;
}

function branches(node) {
  if (BRANCHES.has(node.type)) return 1;
  if (node.type === "SwitchCase") return node.test === null ? 0 : 1;
  return node.type === "AssignmentExpression" && LOGICAL_ASSIGNMENTS.has(node.operator) ? 1 : 0;
}

/** McCabe's complexity: the number of branches plus one, without nested functions. */
function complexity(node) {
  let count = 1;
  const visit = (inner) => {
    if (FUNCTIONS.has(inner.type)) return;
    count += branches(inner);
    for (const child of children(inner)) visit(child);
  };
  for (const child of children(node)) visit(child);
  return count;
}

function* functionsOf(node, parent) {
  // A signature without a body (an overload) is skipped.
  if (FUNCTIONS.has(node.type) && node.body)
    yield { node, outer: parent, name: node.id?.name ?? nameIn(parent) ?? "an unnamed function" };
  for (const child of children(node)) yield* functionsOf(child, node);
}

function nameIn(parent) {
  const key = parent?.key ?? parent?.id ?? parent?.left;
  return key?.name ?? key?.property?.name ?? key?.value;
}

/** A reason is a comment directly above the function, or before the first statement of its body. */
function hasReason(lines, first, last) {
  for (let i = first - 2; i >= 0 && /^\s*(\/\/|\/?\*|@|export\b)/.test(lines[i]); i--)
    if (/\/\/ long: \S/.test(lines[i])) return true;
  for (let i = first - 1; i < Math.min(last, first + 12); i++)
    if (/^\s*\/\/ long: \S/.test(lines[i])) return true;
  return false;
}

function parse(text, file) {
  // TypeScript does not allow AssemblyScript's decorators on plain functions, so they are blanked.
  const source = file.startsWith("kernels")
    ? text.replace(/^(\s*)@\w+/gm, (all) => " ".repeat(all.length))
    : text;
  return parseAst(source, { lang: "ts" }, file);
}

function offencesIn(file) {
  const text = readFileSync(join(root, file), "utf8");
  const lines = text.split("\n");
  const starts = [0];
  for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) starts.push(at + 1);
  const lineOf = (offset) => {
    let low = 0;
    let high = starts.length;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (starts[middle] <= offset) low = middle;
      else high = middle;
    }
    return low + 1;
  };
  const found = [];
  for (const { node, outer, name } of functionsOf(parse(text, file), null)) {
    const first = lineOf(outer?.type === "MethodDefinition" ? outer.start : node.start);
    const last = lineOf(node.end - 1);
    const faults = [];
    if (file.startsWith("src")) {
      const length = last - first + 1;
      if (length > MAX_LINES) faults.push(`${length} lines`);
      const branching = complexity(node);
      if (branching > MAX_COMPLEXITY) faults.push(`complexity ${branching}`);
    } else if (node.params.length > MAX_KERNEL_PARAMETERS) faults.push(`${node.params.length} parameters`);
    if (faults.length > 0 && !hasReason(lines, first, last))
      found.push(`${file}:${first}: ${name}: ${faults.join(", ")}`);
  }
  return found;
}

const files = ["src", "kernels"].flatMap((folder) =>
  readdirSync(join(root, folder), { recursive: true })
    .map((name) => `${folder}/${String(name).replaceAll("\\", "/")}`)
    .filter((name) => name.endsWith(".ts") && !name.endsWith(".test.ts") && !name.endsWith(".d.ts"))
    .sort(),
);
const offences = files.flatMap(offencesIn);
if (offences.length > 0) {
  console.error(offences.join("\n"));
  console.error(
    `${offences.length} functions are too long (at most ${MAX_LINES} lines, complexity ${MAX_COMPLEXITY}, ` +
      `${MAX_KERNEL_PARAMETERS} parameters of a kernel): split them, or say why not in a comment '// long: …'`,
  );
  if (!process.argv.includes("--list")) process.exit(1);
} else console.error(`functions are short enough in ${files.length} files`);
