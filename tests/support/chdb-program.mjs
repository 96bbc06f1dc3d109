// A current ClickHouse in one process (chdb), with the part of the HTTP interface that hoptime uses: node chdb-program.mjs FOLDER PORT MODULES. Loopback, any
// user and password.
import { unlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { join } from "node:path";

const [folder = "", port = "", modules = ""] = process.argv.slice(2);
const { Session } = createRequire(join(modules, "x"))("chdb");
const session = new Session(join(folder, "chdb"));
/** Parameters of the interface, not of a statement. */
const NOT_SETTINGS = new Set(["database", "query", "wait_end_of_query"]);
let [files, current, settings] = [0, "default", ""];

function answer(url, body) {
  if (url.pathname === "/ping") return "Ok.\n";
  const database = url.searchParams.get("database") ?? "default";
  // A statement for the server itself does not need the database to exist.
  if (database !== current) session.query(`USE \`${database}\``);
  current = database;
  const given = [...url.searchParams].filter(([name]) => !NOT_SETTINGS.has(name));
  const text = given
    .map(([name, value]) => `${name} = ${/^\d+$/.test(value) ? value : `'${value}'`}`)
    .join(", ");
  if (text !== settings && text !== "") session.query(`SET ${text}`);
  settings = text;
  const statement = url.searchParams.get("query");
  if (statement === null) return session.query(body.toString());
  if (body.length === 0) return session.query(statement);
  const file = join(folder, `rows-${files++}`);
  writeFileSync(file, body);
  try {
    return session.query(statement.replace(/ FORMAT (\w+)$/, ` FROM INFILE '${file}' FORMAT $1`));
  } finally {
    unlinkSync(file);
  }
}

createServer((request, response) => {
  const parts = [];
  request.on("data", (part) => parts.push(part));
  request.on("end", () => {
    try {
      response.end(answer(new URL(request.url ?? "/", "http://x"), Buffer.concat(parts)));
    } catch (error) {
      response.statusCode = 500;
      response.end(error.message.replace(/^Query failed: /, ""));
    }
  });
}).listen(Number(port), "127.0.0.1");
