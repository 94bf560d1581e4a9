// A long conversation, cut before each model call: old results are shortened, turns of long ago become a summary. The
// state keeps everything; only what the model is sent gets shorter.
import { agent, type Call, type Message, tool } from "yieldagent";
import { collect, script, toolCall } from "yieldagent/testing";

/** Sends the system message, a summary of all but the last turns, and these, with results that are no longer than `max`. */
function trimmed(call: Call, summarize: (messages: Message[]) => Promise<string>, turns: number, max: number): Call {
  return async function* (messages, tools, context) {
    // Cut only before a user message: a result without its call is refused by every server.
    const starts = messages.flatMap(({ role }, i) => (role === "user" ? [i] : []));
    const from = starts.at(-turns) ?? 0;
    const system = messages.filter(({ role }, i) => role === "system" && i < from);
    const old = messages.slice(0, from).filter(({ role }) => role !== "system");
    const summary: Message[] = old.length > 0 ? [{ role: "user", content: `Summary of what was before: ${await summarize(old)}` }] : [];
    const recent = messages.slice(from).map((message, i, all) => {
      const { role, content } = message;
      const isOld = role === "tool" && i < all.length - 1;
      return isOld && typeof content === "string" && content.length > max ? { ...message, content: `${content.slice(0, max)}… (shortened)` } : message;
    });
    const answer = await call([...system, ...summary, ...recent], tools, context);
    return Symbol.asyncIterator in answer ? yield* answer : answer;
  };
}

const sent: string[] = [];
/** Asks for one tool after each user message, and writes down what it was sent. */
function reply(messages: Message[]) {
  sent.push(messages.map(({ role, content }) => `${role}: ${content ?? "(calls)"}`).join(" | "));
  return messages.at(-1)?.role === "tool" ? "Done." : toolCall("read", {}, `c${sent.length}`);
}
const model: Call = async (messages, tools, context) => script(...Array<typeof reply>(9).fill(reply))(messages, tools, context);
const call = trimmed(model, async (messages) => `${messages.length} messages`, 2, 10);
const tools = { read: tool({ run: () => "a long text of a file" }) };

let { state } = agent({ call, tools, messages: [{ role: "system", content: "Be short." }] });
for (const content of ["Read a.", "Read b.", "Read c."]) {
  const run = agent({ call, tools, state, messages: [{ role: "user", content }] });
  await collect(run);
  state = run.state;
}
for (const one of sent) console.log(one);
console.log(state.messages.length, "messages are kept");

// prints
// system: Be short. | user: Read a.
// system: Be short. | user: Read a. | assistant: (calls) | tool: a long text of a file
// system: Be short. | user: Read a. | assistant: (calls) | tool: a long tex… (shortened) | assistant: Done. | user: Read b.
// system: Be short. | user: Read a. | assistant: (calls) | tool: a long tex… (shortened) | assistant: Done. | user: Read b. | assistant: (calls) | tool: a long text of a file
// system: Be short. | user: Summary of what was before: 4 messages | user: Read b. | assistant: (calls) | tool: a long tex… (shortened) | assistant: Done. | user: Read c.
// system: Be short. | user: Summary of what was before: 4 messages | user: Read b. | assistant: (calls) | tool: a long tex… (shortened) | assistant: Done. | user: Read c. | assistant: (calls) | tool: a long text of a file
// 13 messages are kept
