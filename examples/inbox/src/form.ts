import type { Args, Tools } from "yieldagent";
import { show } from "yieldagent/show";
import { html, type Html, prose } from "./html.ts";

/** One argument of a call, as a form edits it. */
interface Field {
  name: string;
  kind: "text" | "number" | "flag" | "choice" | "json";
  required: boolean;
  choices: unknown[];
}

/** The JSON Schema that a tool's arguments have: its own, or what its Standard Schema gives. */
function schemaOf(tools: Tools<unknown, unknown>, name: string): Args {
  const tool = (tools as Record<string, { jsonSchema?: object; parameters?: object }>)[name];
  const standard = (tool?.parameters as { "~standard"?: { jsonSchema?: { input(options: { target: string }): Args } } } | undefined)?.["~standard"];
  return (tool?.jsonSchema ?? standard?.jsonSchema?.input({ target: "draft-2020-12" }) ?? tool?.parameters ?? {}) as Args;
}

function fieldsOf(schema: Args, args: Readonly<Args>): Field[] {
  const properties = Object(schema["properties"]) as Record<string, Args>;
  const required = (schema["required"] ?? []) as string[];
  return [...new Set([...Object.keys(properties), ...Object.keys(args)])].map((name) => {
    const given = Object.hasOwn(args, name) ? args[name] : undefined;
    const { type, enum: choices } = (Object.hasOwn(properties, name) ? properties[name] : {}) as { type?: string; enum?: unknown[] };
    const fits = (kind: string): boolean => given === undefined || typeof given === kind;
    const kind = Array.isArray(choices) ? "choice" : type === "string" && fits("string") && isPlain(given) ? "text"
      : (type === "number" || type === "integer") && fits("number") ? "number" : type === "boolean" && fits("boolean") ? "flag" : "json";
    return { name, kind, required: required.includes(name), choices: choices ?? [] };
  });
}

/** Whether a form gives the text back as it is, and the person sees all of it. What isn't is edited as JSON, with escapes. */
function isPlain(text: unknown): boolean {
  return text === undefined || prose(String(text)) === text;
}

/** Inputs for a call's arguments, made from the tool's schema. */
export function inputs(tools: Tools<unknown, unknown>, tool: string, args: Readonly<Args>): Html[] {
  return fieldsOf(schemaOf(tools, tool), args).map(({ name, kind, required, choices }) => {
    const value = Object.hasOwn(args, name) ? args[name] : undefined;
    const key = `arg:${name}`;
    const needed = required && html` required`;
    if (kind === "flag") return html`<label class="flag"><input type="checkbox" name="${key}"${value === true && html` checked`}> ${name}</label>`;
    const input = kind === "choice" ? html`<select name="${key}">${[...(required ? [] : [undefined]), ...choices].map((choice) => html`<option value="${choice === undefined ? "" : JSON.stringify(choice)}"${choice === value && html` selected`}>${choice === undefined ? "" : String(choice)}</option>`)}</select>`
      : kind === "number" ? html`<input name="${key}" inputmode="decimal" value="${value === undefined ? "" : String(value)}"${needed}>`
      : kind === "json" ? html`<textarea name="${key}" rows="4" spellcheck="false" class="code"${needed}>${value === undefined ? "" : show(value)}</textarea>`
      // A textarea swallows a line break at its beginning.
      : String(value ?? "").length > 60 || String(value ?? "").includes("\n") ? html`<textarea name="${key}" rows="7"${needed}>${"\n"}${String(value ?? "")}</textarea>`
      : html`<input name="${key}" value="${String(value ?? "")}"${needed}>`;
    return html`<label>${name}${kind === "json" && html` <small>as JSON</small>`}${input}</label>`;
  });
}

/** What a person typed is not what the field holds. */
export class BadInput extends Error {}

/** The arguments that a person made of a call's. Whether they fit the schema is the loop's to say. */
export function readArgs(tools: Tools<unknown, unknown>, tool: string, args: Readonly<Args>, form: URLSearchParams): Args {
  const edited: [string, unknown][] = [];
  for (const { name, kind, required } of fieldsOf(schemaOf(tools, tool), args)) {
    const typed = (form.get(`arg:${name}`) ?? "").replace(/\r\n?/g, "\n"); // forms send every line break as CR LF
    if (kind === "flag") {
      if (form.has(`arg:${name}`) || required || Object.hasOwn(args, name)) edited.push([name, form.has(`arg:${name}`)]);
    } else if (typed === "" && !(kind === "text" && (required || args[name] === ""))) continue; // left out
    else if (kind === "text") edited.push([name, typed]);
    else if (kind === "number") edited.push([name, readNumber(name, typed)]);
    else edited.push([name, readJson(name, typed)]);
  }
  return Object.fromEntries(edited);
}

function readNumber(name: string, typed: string): number {
  const text = typed.trim();
  if (!/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text)) throw new BadInput(`${name} must be a number, such as 12.50`);
  return Number(text);
}

function readJson(name: string, typed: string): unknown {
  try {
    return JSON.parse(typed);
  } catch (error) {
    throw new BadInput(`${name} must be JSON: ${(error as Error).message}`);
  }
}
