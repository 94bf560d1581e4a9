import type { Decision } from "./decision.ts";
import { deltas, isStream } from "./delta.ts";
import { type Approve, checkResume, classify, type Decided, recovered, resumed, undecided } from "./gate.ts";
import { type Args, check } from "./json.ts";
import { Lifeline, Run } from "./lifeline.ts";
import { isPromise } from "./maybe.ts";
import { type Call, type Message, textOf } from "./message.ts";
import type { StandardSchema } from "./standard-schema.ts";
import { Ledger, type Outcome, pending, type Slot, type State } from "./state.ts";
import type { Step } from "./step.ts";
import { type AnyTool, type JsonSchema, type Tool, type Toolbox, toolbox, type Valid, validate } from "./tool.ts";
import { Work } from "./work.ts";

/**
 * A record of tools, by name. All is inferred: for each tool its arguments before and after its schema, `Input` and
 * `Output`, and if it is an agent, its steps, `Inner`.
 */
export type Tools<Input, Output, Inner = unknown> =
  & { [Name in keyof Output]: Tool<Output[Name], unknown> }
  & { [Name in keyof Input]: { parameters?: StandardSchema<Input[Name], unknown> | JsonSchema | undefined; readonly "~input"?: Input[Name] } }
  & { [Name in keyof Inner]: { readonly "~inner"?: Inner[Name] } };

export interface AgentOptions<Input = Record<string, Args>, Output = Input, Inner = unknown> {
  /** Asks the model; what it throws ends the run, with nothing of the reply in the state. */
  call: Call;
  /** What the model may use, by name; names match `^[a-zA-Z_][a-zA-Z0-9_-]{0,63}$`. Default: nothing. */
  tools?: Tools<Input, Output, Inner> | undefined;
  /** The conversation to start from; together with `state`, messages to add once its open calls are settled. */
  messages?: readonly Message[] | undefined;
  /** A saved state to go on from. It is neither changed nor frozen. */
  state?: State | undefined;
  /** By call id, what a person decided on pending calls of `state`. Those left out stay pending. */
  decisions?: Readonly<Record<string, Decision>> | undefined;
  /** The policy, asked once about each call of a reply, before any of them runs. Default: no objection to any. */
  approve?: Approve | undefined;
  /** Awaited with the new state at every change, before anything that the change leads to. What it throws ends the run. */
  save?: ((state: State) => unknown) | undefined;
  /** `true`: the process that held `state` is gone, and calls it had started may or may not have run. Default `false`. */
  recover?: boolean | undefined;
  /** Model calls allowed since the last user message; then the run ends with `final`, reason `max-steps`. Default 10. */
  maxSteps?: number | undefined;
  /** Tools of one reply that run at a time; 1 is strictly one after another. Default: all. */
  concurrency?: number | undefined;
  /** The text the model reads when a tool throws. Default, also for undefined: that it may have taken effect, and the error's message. What this throws ends the run. */
  onToolError?: ((error: unknown, call: { tool: string; id: string }) => string | undefined) | undefined;
  /** The run's id, a part of each call's `key`. Default: a random UUID, drawn when a run starts from `messages`. */
  id?: string | undefined;
  /** Cancels the run: nothing new starts, tools that run are told, and the run throws the signal's reason at once. */
  signal?: AbortSignal | undefined;
}

/** A run: iterate it. `state` is a snapshot at any time: between steps, after a `break`, after a throw. */
export interface AgentRun<S = Step> extends AsyncGenerator<S, void, undefined> {
  readonly state: State;
}

/**
 * Runs the loop: ask the model, run the tools it asks for, hand the results back, until it answers. With calls open the
 * run settles them, with none it asks the model; starting, resuming and recovering are the same loop entered with
 * another state. The run does nothing until it is iterated, and then only what the next step takes.
 *
 * Throws `AgentError` at once for wrong options (`bad-options`), a damaged state (`bad-state`), a decision on no pending
 * call (`bad-decision`) and calls that may still be running elsewhere (`in-flight`): nothing ran. Iterating throws what
 * `call`, `save` and `onToolError` throw, the signal's reason, and `bad-reply` and `bad-decision` (edited arguments
 * that the tool's schema refuses). What an agent inside of a tool refuses is thrown when the calls beside it have ended;
 * the questions inside wait as before, in `state`.
 */
export function agent<Input, Output, Inner = object>(options: AgentOptions<Input, Output, Inner>): AgentRun<Step<Input, Inner>> {
  check("bad-options", "options", options, OPTIONS, false);
  const ledger = new Ledger(options);
  const tools = toolbox(options.tools);
  const decided = checkResume(ledger, tools, options.decisions ?? {}, options.recover);
  const life = new Lifeline();
  return new Run(loop(options, ledger, tools, decided, life), life, ledger) as unknown as AgentRun<Step<Input, Inner>>;
}

const OPTIONS = {
  call: "a function", tools: "an object?", messages: "an array?", state: "anything", decisions: "an object?", approve: "a function?",
  save: "a function?", recover: "a boolean?", maxSteps: "a whole number from 1, or Infinity?", concurrency: "a whole number from 1, or Infinity?",
  onToolError: "a function?", id: "a string, not empty?", signal: "an AbortSignal?",
} as const;

type LoopOptions = Pick<AgentOptions<unknown, unknown>, "call" | "approve" | "save" | "recover" | "signal" | "onToolError" | "maxSteps" | "concurrency">;

/**
 * With calls open, it settles them; with none, it asks the model. Each turn is one change of the state, or one wait.
 * (No closure of `agent()`: engines make a hidden class for each generator function, and free it late.)
 */
async function* loop(
  { call, approve, save, recover = false, signal, onToolError, maxSteps = 10, concurrency = Infinity }: LoopOptions,
  ledger: Ledger, tools: Toolbox, decided: readonly Decided[], life: Lifeline,
): AsyncGenerator<Step, void, undefined> {
  const toolOf = (open: Slot): AnyTool => tools.byName.get(open.tool) as AnyTool; // classify and checkResume looked
  const abort = (): void => life.end(signal?.reason);
  signal?.addEventListener("abort", abort);
  if (signal?.aborted) abort();
  const work = new Work({ runId: ledger.id, recover, onToolError }, life);
  try {
    life.check();
    // What is about to change: at first, what a crash left open and what a person decided.
    let updates = ledger.in("started").map((open) => recovered(open, toolOf(open)));
    for (const given of decided) updates.push(await life.until(resumed(given, toolOf(given.open))));
    for (;;) {
      life.check();
      if (updates.length > 0) {
        // First the state, then its saving, and only then are results handed over, and do tools go on that kept something.
        const changed = updates;
        updates = [];
        ledger.update(changed);
        if (save) await ledger.save(save);
        for (const { taken } of changed) taken?.();
        for (const { open, outcome } of changed) {
          if (!outcome) continue;
          yield toolResult(open, outcome);
          life.check();
        }
      } else if (ledger.has("new")) {
        // Every call is classified before any runs.
        for (const open of ledger.in("new")) {
          const update = classify(open, tools, approve, ledger, life);
          updates.push(isPromise(update) ? await life.until(update) : update);
        }
      } else if (!work.refusal && work.count < concurrency && ledger.has("ready")) {
        // What can start together is announced, then saved, and only then run: nothing runs that the state doesn't know of.
        const batch = ledger.in("ready").slice(0, concurrency - work.count);
        // Schemas are asked first, since a call that waits for one hasn't run.
        const checks = batch.map((open) => validate(toolOf(open), open.args));
        const inputs = checks.some(isPromise) ? await life.until(Promise.all(checks)) : (checks as Valid[]);
        life.check();
        ledger.move(batch, "started");
        let announced = 0;
        try {
          for (const { id, tool, args } of batch) {
            yield { type: "tool-start", id, tool, args };
            life.check();
            announced++;
          }
        } finally {
          if (announced < batch.length) ledger.retract(batch, save !== undefined);
        }
        if (save) await ledger.save(save);
        let entered = 0;
        for (const open of batch) {
          if (life.ended) break;
          work.enter(toolOf(open), open, inputs[entered++] as Valid);
        }
        if (entered < batch.length) {
          ledger.move(batch.slice(entered), "ready");
          if (save) await ledger.save(save);
        }
      } else if (work.count > 0) {
        const news = work.news();
        if (news) await life.until(news);
        life.check();
        updates = work.updates();
        const progress = updates.length > 0 ? undefined : work.progress();
        if (!progress) continue;
        yield progress.step;
        life.check();
        progress.taken();
      } else if (work.refusal) {
        throw work.refusal;
      } else if (ledger.has("pending")) {
        if (ledger.added.length === 0) return yield { type: "approval-needed", pending: pending(ledger.state), state: ledger.state };
        updates = ledger.in("pending").map(undecided);
      } else if (ledger.calls.length > 0) {
        ledger.close();
        if (save) await ledger.save(save);
      } else if (ledger.added.length > 0) {
        ledger.add();
        if (save) await ledger.save(save);
      } else if (ledger.messages.at(-1)?.role === "assistant") {
        return yield final(ledger, ledger.finishReason ?? "stop");
      } else if (ledger.steps >= maxSteps) {
        return yield final(ledger, "max-steps");
      } else {
        const asked = call(ledger.messages.slice(), tools.definitions, { signal: life.signal, step: ledger.replies + 1 });
        const answer = isPromise(asked) ? await life.until(asked) : asked;
        const step = ledger.reply(isStream(answer) ? yield* deltas(answer, life) : answer);
        if (save) await ledger.save(save);
        yield step;
      }
    }
  } catch (error) {
    life.end(error);
    if (!life.left || error !== life.ended?.reason) throw error;
  } finally {
    signal?.removeEventListener("abort", abort);
    // What has come in meanwhile is known, and nobody must be asked about it.
    const known = work.close();
    if (known.length > 0 && !ledger.failed) {
      ledger.update(known);
      if (save) await ledger.save(save);
    }
  }
}

function toolResult({ id, tool, args, decision }: Slot, outcome: Outcome): Step {
  const type = "tool-result";
  const step: Step = "error" in outcome ? { type, id, tool, args, error: outcome.error } : { type, id, tool, args, result: outcome.result };
  return decision === undefined ? step : { ...step, decision };
}

function final(ledger: Ledger, reason: string): Step {
  const last = ledger.messages.at(-1);
  return { type: "final", text: last?.role === "assistant" ? textOf(last) : null, reason, messages: ledger.messages.slice(), state: ledger.state };
}
