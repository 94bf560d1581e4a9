// Bugs that the tests must see: each is a text of src/ that occurs once, and what somebody might have written instead.
export interface Bug {
  readonly name: string;
  readonly edits: readonly (readonly [file: string, from: string, to: string])[];
}

const bug = (name: string, file: string, from: string, to: string): Bug => ({ name, edits: [[file, from, to]] });

export const BUGS: readonly Bug[] = [
  // Gates that stand open.
  bug("a needsApproval that returns undefined waives the person", "gate.ts", "says !== false);", "says !== false && says !== undefined);"),
  bug("a needsApproval that throws waives the person", "gate.ts", "    return null;\n", "    return false;\n"),
  bug("a policy that has no objection opens a gated tool", "gate.ts", "judged(open, tool, gated || verdict !== true)", "judged(open, tool, approve ? verdict !== true : gated)"),
  bug("a policy's truthy answer counts as no objection", "gate.ts", "gated || verdict !== true", "gated || !verdict"),
  bug("a policy's decision that can't be taken leaves the call as the tool has it", "gate.ts", "    return judged(open, tool, true);", "    return judged(open, tool, gated);"),
  bug("a policy is asked instead of the tool", "gate.ts", "typeof needsApproval === \"function\" ? await ask(() => needsApproval(valid.value, { id, messages })) : needsApproval;", "typeof needsApproval === \"function\" && !approve ? await ask(() => needsApproval(valid.value, { id, messages })) : (typeof needsApproval === \"function\" ? false : needsApproval);"),
  bug("a call that the user passed over runs", "gate.ts", "  return done(open, { error: `${what} the user went on without deciding` });", "  return { open, change: { status: \"ready\" } };"),
  bug("needsApproval is asked once and remembered for the tool", "gate.ts", "  const { needsApproval } = tool;\n", "  const { needsApproval } = tool;\n  if (needsApproval === undefined) tool.needsApproval = false;\n"),
  // Approvals that reach further than they should.
  bug("an approval is reused after a crash", "gate.ts", "change: tool.idempotent || tool.resumable ?", "change: tool.idempotent || tool.resumable || open.decision ?"),
  bug("an interrupted call runs again by itself", "gate.ts", "change: tool.idempotent || tool.resumable ?", "change: tool.idempotent !== false || tool.resumable ?"),
  bug("an interrupted call keeps its approval", "gate.ts", ", reason: \"interrupted\", decision: undefined }", ", reason: \"interrupted\" }"),
  bug("a late approval answers an interrupted call", "decision.ts", "if (yes && reason === \"interrupted\")", "if (yes && reason === undefined)"),
  bug("a call that never ran can be run again", "decision.ts", "if (has(\"rerun\") && reason !== \"interrupted\")", "if (has(\"rerun\") && reason === undefined)"),
  bug("a decision is applied by position", "gate.ts", "const given = questions.filter(({ id }) => Object.hasOwn(decisions, id)).map(({ id, reason }): [string, Decision] => [id, checkDecision(id, reason, decisions[id])]);", "const given = questions.filter(({ id }) => Object.hasOwn(decisions, id)).map(({ id, reason }): [string, Decision] => [id, checkDecision(id, reason, Object.values(decisions)[decided.length])]);"),
  bug("decisions are found through the prototype", "gate.ts", "Object.hasOwn(decisions, id)", "id in decisions"),
  bug("a decision on no pending call is ignored", "gate.ts", "    if (ids.includes(id)) continue;\n", "    if (ids.includes(id) || ids.length === 0) continue;\n"),
  bug("only the first of several decisions is carried out", "agent.ts", "for (const given of decided) updates.push", "for (const given of decided.slice(0, 1)) updates.push"),
  bug("calls left undecided beside decided ones are closed", "agent.ts", "if (ledger.added.length === 0) return yield", "if (ledger.added.length === 0 && decided.length === 0) return yield"),
  bug("an edit is approved, and the old arguments run", "gate.ts", "change: { status: \"ready\", decision, args, edited", "change: { status: \"ready\", decision, edited"),
  bug("edited arguments pass unchecked", "gate.ts", "  if (\"error\" in valid) throw new AgentError(\"bad-decision\"", "  if (\"error\" in valid && valid.error === \"\") throw new AgentError(\"bad-decision\""),
  bug("the model isn't told of an edit", "state.ts", "if (open.edited) content", "if (open.edited && !open.decision) content"),
  { name: "a truthy word approves", edits: [["decision.ts", "const yes = has(\"approved\") && said[\"approved\"] === true;", "const yes = has(\"approved\") && Boolean(said[\"approved\"]);"], ["decision.ts", "{ approved: \"true\", args: \"an object?\" }", "{ approved: \"anything\", args: \"an object?\" }"]] },
  bug("misspelt fields of a decision are ignored", "decision.ts", "{ approved: \"true\", args: \"an object?\" }, false)", "{ approved: \"true\", args: \"an object?\" })"),
  // Calls that run twice.
  bug("the write-ahead is dropped", "agent.ts", "        if (save) await ledger.save(save);\n        let entered = 0;", "        let entered = 0;"),
  { name: "the write-ahead comes after the run", edits: [["agent.ts", "        if (save) await ledger.save(save);\n        let entered = 0;", "        let entered = 0;"], ["agent.ts", "        if (entered < batch.length) {", "        if (save) await ledger.save(save);\n        if (entered < batch.length) {"]] },
  bug("a state with started calls is taken over without a word", "gate.ts", "if (started.length && !recover)", "if (started.length > 99 && !recover)"),
  bug("a tool that throws is tried again", "work.ts", "    }, ran, failed);", "    }, ran, () => attempt(() => tool.run?.(input.value, context), ran, failed));"),
  bug("a call that was running when the consumer left is ready again", "agent.ts", "    // What has come in meanwhile is known, and nobody must be asked about it.\n", "    if (life.left) ledger.move(ledger.in(\"started\"), \"ready\");\n"),
  bug("what comes in as the run ends is forgotten", "agent.ts", "if (known.length > 0 && !ledger.failed) {", "if (known.length > 99 && !ledger.failed) {"),
  bug("a tool starts although the run was aborted while it was announced", "agent.ts", "          if (life.ended) break;\n", ""),
  bug("two calls by one id share a result and an approval", "message.ts", "const isTaken = (id: string): boolean => ids.has(id) || calls", "const isTaken = (id: string): boolean => calls"),
  bug("the key doesn't name the run", "work.ts", "key: `${runId}/", "key: `run/"),
  bug("a slash in an id makes it the key of another call", "work.ts", "${/[%/]/.test(id) ? id.replace(/[%/]/g, encodeURIComponent) : id}", "${id}"),
  // Runs that are lost, or that a store gets wrong.
  bug("a save that fails is ignored", "state.ts", "      this.failed = true;\n      throw error;", "      this.failed = true;"),
  bug("after a failed save the state is the one that wasn't saved", "state.ts", "      this.#snapshot = this.#saved;\n", ""),
  bug("after a failed save another one is tried", "agent.ts", "if (known.length > 0 && !ledger.failed) {", "if (known.length > 0) {"),
  bug("a started call is no new revision", "state.ts", "      open.status = status;\n      open.view = undefined;\n    }\n    this.#changed();", "      open.status = status;\n      open.view = undefined;\n    }\n    this.#snapshot = undefined;"),
  bug("a result is handed over before it is saved", "agent.ts", "        if (save) await ledger.save(save);\n        for (const { taken } of changed) taken?.();\n        for (const { open, outcome } of changed) {", "        for (const { taken } of changed) taken?.();\n        for (const { open, outcome } of changed) {"),
  bug("a reply is handed over before it is saved", "agent.ts", "        if (save) await ledger.save(save);\n        yield step;", "        yield step;\n        if (save) await ledger.save(save);"),
  bug("results enter the conversation in the order of their coming", "state.ts", "      Object.assign(open, change);\n", "      Object.assign(open, change);\n      if (change.status === \"done\") this.calls.push(this.calls.splice(this.calls.indexOf(open), 1)[0] as Slot);\n"),
  bug("a call is classified when those before it have run", "agent.ts", "      } else if (ledger.has(\"new\")) {\n        // Every call is classified before any runs.\n        for (const open of ledger.in(\"new\")) {", "      } else if (ledger.has(\"new\") && !ledger.has(\"ready\")) {\n        // Every call is classified before any runs.\n        for (const open of ledger.in(\"new\").slice(0, 1)) {"),
  bug("a state handed out can be changed from outside", "state.ts", "view ??= keep({ ...open, view: undefined }, MAX_STATE_DEPTH) as OpenCall", "view ??= { ...open, view: undefined } as never"),
  bug("a state's calls need not be the message's", "state.ts", "  if (id !== askedId) throw wrong(", "  if (id !== askedId && typeof id !== \"string\") throw wrong("),
  // What the model can do.
  bug("tools are found through the prototype", "gate.ts", "const tool = byName.get(open.tool);\n  if (!tool) {", "const tool = byName.get(open.tool) ?? ({} as Record<string, AnyTool>)[open.tool];\n  if (!tool) {"),
  bug("a reply that was cut off runs", "state.ts", "if (finish_reason === \"length\")", "if (finish_reason === \"max_tokens\")"),
  bug("arguments that were cut off are completed", "message.ts", "const value: unknown = JSON.parse(text as string);", "const value: unknown = JSON.parse(/\\d$/.test(text as string) ? `${text as string}}` : (text as string));"),
  bug("broken arguments stay in the history", "message.ts", "function: error ? { ...call.function, arguments: \"{}\" } : call.function", "function: call.function"),
  bug("a tool is handed the state's own arguments", "tool.ts", "return { value: thaw(args) };", "return { value: args };"),
];
