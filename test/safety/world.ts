// A world to run a plan in: a store with compare-and-set, tools whose effects are counted, a person who decides, and
// processes that die. Everything that can happen has a number, its point, counted over the whole run; a schedule says what
// goes wrong at which. Every rule that holds at all times is checked here, at the moment it could be broken. A plan may have
// agents as tools, to any depth: then calls have their keys for names, and a person answers at the top.
import { agent, type AgentRun, type Decision, type Message, type OpenCall, pending, type State, type Step, type Tool, tool } from "yieldagent";
import { subagent } from "yieldagent/subagent";
import { checkMove, fate, type Life, locate, shown, waiting } from "./model.ts";
import { BOSSES, IDEMPOTENT, modelOf, type Plan, policyOf } from "./plan.ts";

/** The process dies, a save is lost, a save lands but is reported lost, the run is aborted, its consumer goes away. */
export type Fault = "kill" | "lost" | "landed" | "abort" | "break";
export type Schedule = Readonly<Record<number, Fault>>;

export interface Told {
  /** The conversation at the end. */
  readonly messages: readonly Message[];
  /** What each point was, in order. */
  readonly points: readonly string[];
  /** The row of the store after each save that landed. */
  readonly rows: readonly Row[];
  readonly entries: readonly Entry[];
  /** What a person was asked, by key: the arguments' text as shown. */
  readonly asked: ReadonlyMap<string, string>;
  /** The conversations of agents inside as they were kept last, by key. */
  readonly inside: ReadonlyMap<string, readonly Message[]>;
  readonly lives: number;
  /** Every state that was handed out, as text. */
  readonly states: ReadonlySet<string>;
}

/** A saved state as text, and what had happened when it was written. */
export interface Row {
  readonly text: string;
  readonly past: Past;
}

/** A time a tool was entered, and whether it got as far as its effect. */
interface Entry {
  readonly key: string;
  readonly id: string;
  readonly tool: string;
  readonly args: unknown;
  effect: boolean;
}

/** What the world remembers beside the store: the effects, and the person's memory. Calls are named by their keys. */
class Past {
  entries: Entry[] = [];
  inside: Map<string, readonly Message[]> = new Map();
  /** How many messages a person has said beside their decisions: each is said until it is in the conversation. */
  said: number = 0;
  /** The arguments' text that a person was shown. */
  asked: Map<string, string> = new Map();
  /** The arguments' text that a person allowed. */
  granted: Map<string, string> = new Map();
  /** How often a person said to run a call again. */
  reruns: Map<string, number> = new Map();
  /** By the ids that the person knows the calls by. */
  decided: Map<string, Decision> = new Map();
  /** Calls that a person once left waiting. */
  later: Set<string> = new Set();

  copy(): Past {
    const copy = new Past();
    copy.entries = this.entries.map((entry) => ({ ...entry }));
    copy.asked = new Map(this.asked);
    copy.granted = new Map(this.granted);
    copy.reruns = new Map(this.reruns);
    copy.decided = new Map(this.decided);
    copy.later = new Set(this.later);
    copy.said = this.said;
    copy.inside = new Map(this.inside);
    return copy;
  }
}

export interface WorldOptions {
  readonly schedule?: Schedule;
  /** A row to begin with. */
  readonly from?: Row;
  /** A store that isn't told of calls that start: a variant that must be caught. */
  readonly withoutWriteAhead?: boolean;
  /** The store is fed with `run.state` after each step, by whoever iterates, instead of by `save`. */
  readonly stepFed?: boolean;
}

const never = new Promise<never>(() => {});
const user = { role: "user", content: "go" };
const stop = new Error("stop");
const LOST = "the store is down";
const LANDED = "the store doesn't answer";
const REFUSED = "somebody else goes on with this run";
/** What a run may throw in a world where stores fail and runs are aborted. */
const EXPECTED = [stop.message, LOST, LANDED, REFUSED];

export function fail(what: string): never {
  throw new Error(`world: ${what}`);
}

/** Runs the plan to its end, however many processes that takes. Throws if a rule is broken. */
export async function live(plan: Plan, { schedule = {}, from, withoutWriteAhead = false, stepFed = false }: WorldOptions = {}): Promise<Told> {
  const points: string[] = [];
  const rows: Row[] = [];
  const past = from?.past.copy() ?? new Past();
  const { entries, asked, granted, reruns, decided, later, inside } = past;
  let row = from?.text;
  const handedOut: [State, string][] = [];
  let broken: unknown;
  let lives = 0;

  /** What the person says of what waits in a row, and whether they say something else instead. */
  function person(state: State): { decisions: Record<string, Decision>; keys: Map<string, string>; interjects: boolean } {
    const decisions: Record<string, Decision> = {};
    const keys = new Map<string, string>();
    const heard = state.messages.filter(({ role }) => role === "user").length - 1;
    let interjects = heard < past.said;
    const waits = waiting(plan, state);
    if (!equal(pending(state), waits.map(shown))) fail(`a person is asked ${JSON.stringify(pending(state))}, and what waits is ${JSON.stringify(waits)}`);
    for (const { id, key, args, reason, planned: { verdict, after, args: text } } of waits) {
      const own = decodeURIComponent(key.slice(key.lastIndexOf("/") + 1));
      keys.set(id, key);
      if (reason !== "interrupted") {
        // A person sees what the model asked for, and decides on what they saw.
        if (JSON.stringify(args) !== text) fail(`a person is shown ${JSON.stringify(args)} for ${text}`);
        asked.set(key, text);
      }
      if (reason === "interrupted") {
        const took = entries.some((entry) => entry.key === key && entry.effect);
        const say = after === "truth" ? (took ? "answer" : "rerun") : after;
        decisions[id] = say === "rerun" ? { rerun: true } : say === "answer" ? { result: `did ${own}` } : { approved: false, reason: "left" };
      } else if (verdict === "later" && !later.has(key)) later.add(key);
      else if (verdict === "interject") interjects = true;
      else if (verdict === "reject") decisions[id] = { approved: false, reason: "no" };
      else if (reason === "answer" || verdict === "answer") decisions[id] = { result: `answer ${own}` };
      else if (verdict === "edit") decisions[id] = { approved: true, args: { ...args, n: 100 + (args["n"] as number) } };
      else decisions[id] = true;
    }
    if (interjects) past.said = heard + 1;
    // In another order than the calls: only ids tell which is meant.
    return { decisions: Object.fromEntries(Object.entries(decisions).reverse()), keys, interjects };
  }

  for (;;) {
    if (++lives > 60) fail("the run never ends");
    const before = row === undefined ? undefined : (JSON.parse(row) as State);
    const { decisions, keys, interjects } = before ? person(before) : { decisions: {}, keys: new Map<string, string>(), interjects: false };
    const life: Life = { decisions, interjects, entered: new Set(), kept: new Set(), fresh: true };
    const controller = new AbortController();
    let dead = false;
    let died = (): void => {};
    const death = new Promise<void>((resolve) => (died = resolve));
    /** Something happens here. True if the process dies of it. */
    const at = (what: string): Fault | undefined => {
      if (dead) return "kill";
      points.push(what);
      const fault = schedule[points.length];
      if (fault === "kill") {
        dead = true;
        died();
      }
      if (fault === "abort") controller.abort(stop);
      return fault;
    };
    /** A rule is broken: that must not be taken for an error of a tool or a store. */
    const rule = <T>(check: () => T): T => {
      try {
        return check();
      } catch (error) {
        broken ??= error;
        throw error;
      }
    };

    /** What holds of every tool that is entered, an agent too. Returns its call as it was saved. */
    const checkEntry = (name: string, args: Readonly<Record<string, unknown>>, id: string, key: string): OpenCall => {
      const saved = JSON.parse(row ?? fail(`${name} runs before anything is saved`)) as State;
      const { open, planned, cut, policy, around } = locate(plan, saved, key) ?? fail(`${id} runs with the key ${key}, which the store doesn't know`);
      if (open.id !== id || open.tool !== name) fail(`${name} ${id} runs with the key of ${open.tool} ${open.id}`);
      for (const { id, status } of [...around, open]) if (!withoutWriteAhead && status !== "started") fail(`${key} runs while the store says that ${id} is ${status}`);
      if (life.entered.has(key)) fail(`${key} is entered twice in one life`);
      const destiny = fate(planned, cut, policy);
      if (destiny !== "ready" && destiny !== "approval") fail(`${name} ${id} runs, and it is ${destiny}`);
      if (destiny === "approval" && !granted.has(key)) fail(`${name} ${id} runs, and nobody decided on it`);
      if (JSON.stringify(args) !== (granted.get(key) ?? planned.args)) fail(`${id} runs with ${JSON.stringify(args)}, not as shown or edited`);
      life.entered.add(key);
      return open;
    };
    const enter = (name: string, args: Readonly<Record<string, unknown>>, id: string, key: string): Entry => rule(() => {
      const before = entries.filter((entry) => entry.key === key).length;
      if (before > (reruns.get(key) ?? 0) && !IDEMPOTENT.includes(name)) fail(`${name} ${id} is entered ${before + 1} times`);
      checkEntry(name, args, id, key);
      const entry = { key, id, tool: name, args: { ...args }, effect: false };
      entries.push(entry);
      (args as { n: unknown })["n"] = "scribbled"; // its own copy, and nobody else's
      return entry;
    });
    /** A tool that acts: it may die before its effect, and after it. */
    const acts = (name: string) => (args: Readonly<Record<string, unknown>>, { id, key }: { id: string; key: string }): unknown => {
      if (dead) return never;
      const entry = enter(name, args, id, key);
      if (at(`${name} entered`) === "kill") return never;
      entry.effect = true;
      if (at(`${name} acted`) === "kill") return never;
      return `did ${id}`;
    };
    const typed = {
      "~standard": {
        version: 1 as const, vendor: "world",
        validate: async (value: unknown) => (typeof (value as { n?: unknown }).n === "number" ? { value } : { issues: [{ message: "no number", path: ["n"] }] }) as { value: { n: number } },
      },
    };
    /** An agent as a tool, looked at as it is entered. */
    const team = (name: string, plan: Plan): Tool => {
      const policy = policyOf(plan);
      const made = subagent({
        call: callOf(plan) as never, tools: toolsOf(plan), messages: () => [user], concurrency: plan.concurrency, maxSteps: 50, needsApproval: BOSSES.includes(name) || undefined,
        ...(policy && { approve: (name: string) => (at("policy asked") === "kill" ? never : policy(name)) }),
      });
      const run: Tool["run"] = (args, context) => {
        if (dead) return never;
        rule(() => {
          const { data, decisions = {} } = checkEntry(name, args, context.id, context.key);
          if (!equal(context.data, data) || !equal(context.decisions, decisions) || (data !== undefined && !context.recover)) fail(`${name} ${context.id} isn't told what it has kept, and what was decided`);
        });
        return at(`${name} entered`) === "kill" ? never : made.run?.(args, context);
      };
      return { ...made, run };
    };
    const toolsOf = (plan: Plan) => ({
      ...Object.fromEntries(Object.entries(plan.teams ?? {}).map(([name, inside]) => [name, team(name, inside)])),
      free: tool({ run: acts("free") }),
      gated: tool({ needsApproval: true, run: acts("gated") }),
      human: tool({ description: "ask the user" }),
      idem: tool({ idempotent: true, run: acts("idem") }),
      both: tool({ needsApproval: true, idempotent: true, run: acts("both") }),
      fails: tool({ run: (args, context) => {
        const result = acts("fails")(args, context);
        if (result === never) return never;
        throw new Error("failed");
      } }),
      slow: tool({ run: async (args, context) => {
        if (dead) return never;
        const entry = enter("slow", args, context.id, context.key);
        await undefined;
        if (at("slow entered") === "kill") return never;
        entry.effect = true;
        await undefined;
        return at("slow acted") === "kill" ? never : `did ${context.id}`;
      } }),
      cond: tool({
        needsApproval: (args) => {
          const n = args["n"] as number;
          if (at("needsApproval asked") === "kill") return never;
          if (n % 6 === 2) throw new Error("no answer");
          return n % 3 === 0 ? false : n % 3 === 1 ? true : (undefined as never);
        },
        run: acts("cond"),
      }),
      typed: tool({ parameters: typed, jsonSchema: { type: "object" }, run: acts("typed") as never }),
    });

    let current: State | undefined;
    /** The last state whose save succeeded, as far as the run knows. */
    let confirmed: State | undefined;
    let failed = false;
    const save = async (state: State): Promise<void> => {
      if (dead) return never;
      rule(() => {
        const last = current ?? fail("a save before the run began");
        checkMove(plan, last, state, life);
      });
      confirmed = current;
      current = state;
      return write(state);
    };
    const write = async (state: State): Promise<void> => {
      rule(() => {
        if (failed) fail("a save after one that failed");
      });
      handedOut.push([state, JSON.stringify(state)]);
      const before = at("save asked");
      if (before === "kill") return never;
      if (before === "lost") {
        failed = true;
        throw new Error(LOST);
      }
      const stored = row === undefined ? -1 : (JSON.parse(row) as State).revision;
      if (withoutWriteAhead) {
        if (startsTool(state)) return undefined;
      } else if (row !== undefined && (stepFed ? stored > state.revision : stored !== state.revision - 1)) throw new Error(REFUSED);
      row = JSON.stringify(state);
      if (life.fresh) {
        for (const [id, said] of Object.entries(decisions)) {
          const key = keys.get(id) as string;
          decided.set(id, said);
          if (typeof said === "object" && "rerun" in said) reruns.set(key, (reruns.get(key) ?? 0) + 1);
          else if (said === true) granted.set(key, asked.get(key) ?? fail(`${id} was never shown`));
          else if (typeof said === "object" && "args" in said) granted.set(key, JSON.stringify(said.args));
        }
        life.fresh = false;
      }
      eachInside(state, (one) => inside.set(one.id, one.messages));
      rows.push({ text: row, past: past.copy() });
      const after = at("save landed");
      if (after === "kill") return never;
      if (after === "landed") {
        failed = true;
        throw new Error(LANDED);
      }
      confirmed = state;
    };

    const callOf = (plan: Plan) => (messages: Message[]) => {
      const model = modelOf(plan);
      if (dead) return never;
      rule(() => checkConversation(messages));
      const reply = (): Awaited<ReturnType<typeof model>> => model(messages);
      const { streams, ...message } = reply();
      if (at("model asked") === "kill") return never;
      if (streams) {
        return (async function* () {
          yield { type: "text" as const, text: "…" };
          if (at("model streams") === "kill") await never;
          return message;
        })();
      }
      return at("model answers") === "kill" ? never : Promise.resolve(message);
    };

    if (at("process starts") === "kill") continue;
    if (controller.signal.aborted) continue;
    const policy = policyOf(plan);
    const call = callOf(plan);
    const tools = toolsOf(plan);
    const options = {
      call, tools, ...(!stepFed && { save }), concurrency: plan.concurrency, signal: controller.signal, recover: true, maxSteps: 50,
      ...(policy && { approve: (name: string) => (at("policy asked") === "kill" ? never : policy(name)) }),
      ...(before ? { state: before, decisions, ...(interjects && { messages: [user] }) } : { messages: [user], id: "r" }),
    };
    rule(() => checkStale(before));
    const run = rule(() => agent(options as never) as AgentRun);
    current = run.state;
    let last: Step | undefined;
    let thrown: unknown;
    const drive = async (): Promise<void> => {
      try {
        for (;;) {
          const { done, value } = await run.next();
          if (dead) return;
          if (done) return;
          last = value;
          rule(() => checkStep(value, run));
          if (stepFed && value.type !== "text") await write(run.state);
          const fault = at(value.type);
          if (fault === "kill") return;
          if (fault === "break") {
            await run.return();
            return;
          }
        }
      } catch (error) {
        thrown = error;
      }
    };
    await Promise.race([drive(), death]);
    const killed = dead;
    dead = true; // whatever still runs of this process is nobody's any more
    if (broken) throw broken;
    if (failed && !killed && !stepFed && JSON.stringify(run.state) !== JSON.stringify(confirmed)) fail("after a failed save the run is not where it was saved last");
    if (thrown !== undefined && !EXPECTED.includes((thrown as Error).message)) throw thrown;
    if (thrown === undefined && last?.type === "final" && row !== undefined && (JSON.parse(row) as State).revision === last.state.revision) {
      for (const [state, text] of handedOut) if (JSON.stringify(state) !== text) fail("a state that was handed out has changed");
      if (last.state.calls.length > 0) fail("a run ends with open calls");
      return { messages: last.messages, inside, points, rows, entries, asked, lives, states: new Set(handedOut.map(([, text]) => text)) };
    }

    /** Old decisions, delivered again, fit what still waits for them, or are refused. */
    function checkStale(state: State | undefined): void {
      if (!state || decided.size === 0) return;
      const waits = waiting(plan, state);
      const fits = [...decided].every(([id, said]) => {
        const open = waits.find((each) => each.id === id);
        const reruns = typeof said === "object" && "rerun" in said;
        const yes = said === true || (typeof said === "object" && "approved" in said && said.approved);
        return open !== undefined && !(open.reason === "interrupted" ? yes : reruns) && !(open.reason === "answer" && yes);
      });
      let refused = false;
      try {
        agent({ call: call as never, tools, state, recover: true, decisions: Object.fromEntries(decided) });
      } catch {
        refused = true;
      }
      if (refused === fits) fail(`old decisions ${JSON.stringify([...decided])} are ${refused ? "refused" : "taken"}`);
    }

    function checkStep(step: Step, { state }: AgentRun): void {
      if (JSON.stringify(JSON.parse(JSON.stringify(step))) !== JSON.stringify(step)) fail("a step is no JSON");
      handedOut.push([state, JSON.stringify(state)]);
      if (!equal(JSON.parse(JSON.stringify(state)), state)) fail("a state is not its own JSON");
      if (step.type === "approval-needed" && JSON.stringify(step.pending) !== JSON.stringify(pending(state))) fail("the step asks other than the state");
      if (step.type === "tool-progress") checkInward(step, state);
      if (stepFed || withoutWriteAhead) return;
      if (!/^(text|tool-start)$/.test(step.type) && row !== undefined && JSON.stringify(state) !== row) fail(`${step.type} is handed over before it is saved`);
      if (step.type !== "approval-needed") return;
      if (step.pending.length === 0) fail("nobody is asked about nothing");
      if (row !== undefined && JSON.stringify(step.state) !== row) fail("what a person is asked is not what was saved");
    }
  }
}

/** The states of agents inside of a state, outermost first. */
export function eachInside(state: State, see: (state: State) => void): void {
  for (const { data } of state.calls) {
    if (data === undefined) continue;
    see(data as State);
    eachInside(data as State, see);
  }
}

/** Whether a state says that a tool has started, at any depth: an agent that is entered has done nothing yet. */
function startsTool({ calls }: State): boolean {
  return calls.some(({ status, tool, data }) => (data === undefined ? status === "started" && !/^(team|boss|other)$/.test(tool) : startsTool(data as State)));
}

/** What is told of inside has happened in the state, or is about to: nothing is told that a crash could undo. */
function checkInward({ id, value }: Extract<Step, { type: "tool-progress" }>, state: State): void {
  const step = value as Step;
  const inside = state.calls.find((open) => open.id === id)?.data as State | undefined;
  const open = "id" in step ? inside?.calls.find((open) => open.id === step.id) : undefined;
  const said = inside?.messages.at(-1);
  if (step.type === "tool-start" && open?.status !== "started") fail(`${step.tool} ${step.id} is said to start inside of ${id}, where it is ${open?.status}`);
  if (step.type === "tool-result" && open?.status !== "done") fail(`${step.tool} ${step.id} is said to be done inside of ${id}, where it is ${open?.status}`);
  if (step.type === "message" && !equal(said, step.message)) fail(`${JSON.stringify(step.message)} is said inside of ${id}, where ${JSON.stringify(said)} is`);
  if (step.type === "approval-needed" || step.type === "final") fail(`the end of ${id} is no progress`);
  if (step.type === "tool-progress") checkInward(step, inside ?? fail(`${id} has kept nothing`));
}

/** Every call answered once, in order, directly after its message; ids unique; arguments objects. */
export function checkConversation(messages: readonly Message[]): void {
  const ids: string[] = [];
  for (let i = 0; i < messages.length; i++) {
    const calls = messages[i]?.tool_calls;
    if (messages[i]?.role === "tool") fail(`messages[${i}] answers nothing`);
    if (!calls) continue;
    if (calls.length === 0) fail("an empty tool_calls");
    for (const { id, type, function: { arguments: args } } of calls) {
      const answer = messages[++i];
      if (answer?.role !== "tool" || answer.tool_call_id !== id) fail(`call ${id} is not answered in its place`);
      if (!id || type !== "function" || !/^\{.*\}$/s.test(args)) fail(`call ${id} is not what a strict server takes`);
      ids.push(id as string);
    }
  }
  if (new Set(ids).size !== ids.length) fail(`ids are used twice: ${ids.join()}`);
}

/** Whether two values are the same JSON, and nothing more than JSON: `undefined` fields count as differences. */
export function equal(a: unknown, b: unknown): boolean {
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return Object.is(a, b);
  const keys = Reflect.ownKeys(a);
  return Array.isArray(a) === Array.isArray(b) && keys.length === Reflect.ownKeys(b).length && keys.every((key) => Object.hasOwn(b, key) && equal(Reflect.get(a, key), Reflect.get(b, key)));
}
