// The second half of the build. tsup has written ES modules and their maps into dist; this adds CommonJS and the types.
// Both are derived line by line, so that one map serves two files and what is published stays as small as it can.
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import ts from "typescript";

const root = resolve(fileURLToPath(import.meta.url), "../..");
const dist = (name) => join(root, "dist", name);

/**
 * A module that esbuild wrote, as CommonJS: only its imports and its exports differ, each on the line where it was, so the
 * map of the ES module is that of both. Imports are taken apart at once, since nothing exported changes later (see below), and
 * no chunk imports one that imports it: a chunk holds what the same entries need.
 */
function commonJs(code, name) {
  const made = code
    .replace(/^import \{([^}]*)\} from "(\.\/[\w-]+)\.js";$/gm, (_, list, from) => `const {${list.replace(/([\w$]+) as ([\w$]+)/g, "$1: $2")}} = require("${from}.cjs");`)
    .replace(/^import "(\.\/[\w-]+)\.js";$/gm, 'require("$1.cjs");')
    .replace(/^export \{([^}]*)\};$/gm, (_, list) => `module.exports = {${list.replace(/([\w$]+) as ([\w$]+)/g, "$2: $1")}};`);
  const left = /^(?:import|export)\b(?!\().*$/m.exec(made);
  if (left || made.split("module.exports = ").length !== 2) throw new Error(`${name} can't be made CommonJS: ${left?.[0] ?? "it should have one list of exports"}`);
  return `"use strict"; ${made}`;
}

const names = readdirSync(join(root, "dist"));
for (const name of names.filter((file) => file.endsWith(".js"))) writeFileSync(dist(name.replace(/js$/, "cjs")), commonJs(readFileSync(dist(name), "utf8"), name));

// The types, a file for each source file, with maps that take an editor to the source. They are there once, as CommonJS, which
// ES modules may import too: so a type is the same type in both kinds of module. Each entry's types for `import` are those.
// Only declarations that entry points lead to are in them: what is internal need not suit every compiler that users have.
const entries = names.filter((file) => /^(?!chunk-)[\w-]+\.js$/.test(file)).map((file) => file.slice(0, -3));
const { config } = ts.readConfigFile(join(root, "tsconfig.json"), ts.sys.readFile);
const { options } = ts.convertCompilerOptionsFromJson({ ...config.compilerOptions, noEmit: false, noCheck: true, declarationMap: true, newLine: "lf", rootDir: "src", outDir: "dist" }, root);
const program = ts.createProgram(entries.map((entry) => join(root, "src", `${entry}.ts`)), options);
function emit(transform, write = () => {}) {
  const transformer = ({ factory }) => ({ transformSourceFile: (file) => transform(file, moduleOf(file.fileName), factory), transformBundle: (bundle) => bundle });
  const { diagnostics } = program.emit(undefined, write, undefined, true, { afterDeclarations: [transformer] });
  if (diagnostics.length > 0) throw new Error(ts.formatDiagnostics(diagnostics, { getCanonicalFileName: String, getCurrentDirectory: () => root, getNewLine: () => "\n" }));
}
const moduleOf = (path) => basename(path).replace(/\.ts$/, "");
const specifiers = (statement) => statement.exportClause?.elements ?? statement.importClause?.namedBindings?.elements;
const namesIn = (statement) => (specifiers(statement) ?? statement.declarationList?.declarations ?? [statement]).map(({ name }) => name.text);

const modules = new Map();
emit((file, module) => {
  const other = file.statements.find((one) => !specifiers(one) && !one.declarationList && !one.name);
  if (other) throw new Error(`src/${module}.ts has a statement that isn't understood here, as \`export *\`: ${ts.SyntaxKind[other.kind]}`);
  const variable = file.statements.find(({ declarationList: list }) => list && !(list.flags & ts.NodeFlags.Const));
  if (variable) throw new Error(`src/${module}.ts exports a variable that may change: ${namesIn(variable)}`);
  modules.set(module, file.statements);
  return file;
});

const needed = new Set();
const isNeeded = (module, name) => needed.has(`${module} ${name}`);
function need(module, name) {
  if (isNeeded(module, name)) return;
  needed.add(`${module} ${name}`);
  for (const statement of modules.get(module)) {
    if (!namesIn(statement).includes(name)) continue;
    const specifier = specifiers(statement)?.find((one) => one.name.text === name);
    const original = (specifier?.propertyName ?? specifier?.name)?.text;
    if (statement.moduleSpecifier) need(moduleOf(statement.moduleSpecifier.text), original);
    else if (specifier) need(module, original);
    else needNamesIn(module, statement);
  }
}
function needNamesIn(module, node) {
  if (ts.isIdentifier(node)) need(module, node.text);
  ts.forEachChild(node, (child) => needNamesIn(module, child));
}
for (const [module, statements] of modules) {
  for (const statement of statements) {
    const exported = entries.includes(module) && statement.modifiers?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword);
    if (exported || ts.isExportDeclaration(statement)) for (const name of namesIn(statement)) need(module, name);
  }
}

const withNeeded = (factory, module) => (statement) => {
  if (ts.isExportDeclaration(statement)) return [statement];
  if (!namesIn(statement).some((name) => isNeeded(module, name))) return [];
  if (!ts.isImportDeclaration(statement)) return [statement];
  const { modifiers, importClause: clause, moduleSpecifier, attributes } = statement;
  const imports = factory.updateNamedImports(clause.namedBindings, specifiers(statement).filter(({ name }) => isNeeded(module, name.text)));
  return [factory.updateImportDeclaration(statement, modifiers, factory.updateImportClause(clause, clause.phaseModifier, clause.name, imports), moduleSpecifier, attributes)];
};
emit((file, module, factory) => factory.updateSourceFile(file, file.statements.flatMap(withNeeded(factory, module))), (path, text) => {
  const name = basename(path).replace(/\.d\.ts(\.map)?$/, "");
  if (![...needed].some((one) => one.startsWith(`${name} `))) return;
  const file = `${name}.d.cts`;
  if (path.endsWith(".map")) return writeFileSync(dist(`${file}.map`), JSON.stringify({ ...JSON.parse(text), file }));
  const code = text.replace(/ from "(\.\/[\w-]+)\.ts";$/gm, ' from "$1.cjs";').replace(/^\/\/# sourceMappingURL=.*$/m, `//# sourceMappingURL=${file}.map`);
  if (/"\.[^"\n]*\.ts"/.test(code)) throw new Error(`${name}.ts names another file where only an import or export can`);
  writeFileSync(dist(file), code);
});
for (const entry of entries) writeFileSync(dist(`${entry}.d.ts`), `export * from "./${entry}.cjs";\n`);
