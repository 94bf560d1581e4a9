// "Always allow this tool" for a session: what a person said once holds until the session ends. It is policy, so it is
// in code and not in the state: another session asks again.
import { agent, type Decision, tool } from "yieldagent";
import { collect, script, toolCall } from "yieldagent/testing";

const tools = { write: tool<{ path: string }>({ needsApproval: true, run: ({ path }) => `wrote ${path}` }), remove: tool<{ path: string }>({ needsApproval: true, run: ({ path }) => `removed ${path}` }) };
const call = script(toolCall("write", { path: "a" }), [toolCall("write", { path: "b" }), toolCall("remove", { path: "a" })], "Done.");

const allowed = new Set<string>();
async function approve(name: string, args: unknown, { gated }: { gated: boolean }): Promise<Decision | boolean> {
  if (!gated) return true;
  if (allowed.has(name)) return { approved: true };
  const answer = await ask(`${name} ${JSON.stringify(args)}? yes, no, always: `);
  if (answer === "always") allowed.add(name);
  return { approved: answer !== "no" };
}

/** Stands for the person. */
async function ask(question: string): Promise<string> {
  const answer = question.startsWith("write") ? "always" : "no";
  console.log(question + answer);
  return answer;
}

for (const step of await collect(agent({ call, tools, approve, messages: [{ role: "user", content: "Tidy up." }] }))) {
  if (step.type === "tool-result") console.log("error" in step ? step.error : step.result);
}

// prints
// write {"path":"a"}? yes, no, always: always
// remove {"path":"a"}? yes, no, always: no
// wrote a
// not run: it was rejected
// wrote b
