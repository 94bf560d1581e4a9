// What must hold in every runtime, in plain ECMAScript with `fetch`: nothing of Node, so that a browser can run it as it is.
// `lib` holds what the package's entry points export, however the runtime loaded them; `origin` is the server of
// `runtimes.test.ts`, which cuts what it sends every 7 bytes.

const user = { role: "user", content: "go" };

function equal(found, expected) {
  const [a, b] = [found, expected].map((value) => JSON.stringify(value, (_, item) => (item === undefined ? "(undefined)" : item)));
  if (a !== b) throw new Error(`${a} is not ${b}`);
}

/** What was thrown, or a word that none is. */
async function thrown(work) {
  try {
    await work();
    return "nothing was thrown";
  } catch (error) {
    return error;
  }
}

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

const CASES = {
  "pauses, and goes on from JSON": async ({ agent, collect, script, toolCall }) => {
    const done = [];
    const tools = { look: { run: () => ({ found: 1 }) }, act: { needsApproval: true, run: ({ n }, { key }) => (done.push(key), n) } };
    const call = script([toolCall("look", {}, "a"), toolCall("act", { n: 1 }, "b")], "ok");
    const paused = await collect(agent({ call, tools, messages: [user], id: "r" }));
    equal(paused.map(({ type }) => type), ["message", "tool-start", "tool-result", "approval-needed"]);
    equal(done, []);
    const state = JSON.parse(JSON.stringify(paused.at(-1).state));
    const rest = await collect(agent({ call, tools, state, decisions: { b: { approved: true, args: { n: 2 } } } }));
    equal(rest.map(({ type }) => type), ["tool-start", "tool-result", "message", "final"]);
    equal([rest[1].result, done], [2, ["r/b"]]);
  },
  "draws an id for each run": async ({ agent, script }) => {
    const ids = [1, 2].map(() => agent({ call: script("ok"), messages: [user] }).state.id);
    equal(ids.map((id) => /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(id)), [true, true]);
    equal(ids[0] === ids[1], false);
  },
  "is aborted at once, and remembers what it had started": async ({ agent, collect, script, toolCall }) => {
    const abort = new AbortController();
    const reason = new Error("stop");
    let told;
    const tools = { slow: { run: (_, { signal }) => new Promise(() => { signal.addEventListener("abort", () => (told = signal.reason)); abort.abort(reason); }) } };
    const run = agent({ call: script(toolCall("slow", {}, "a")), tools, messages: [user], signal: abort.signal });
    equal((await thrown(() => collect(run))) === reason, true);
    equal([told === reason, run.state.calls.map(({ status }) => status)], [true, ["started"]]);
  },
  "is left by break, and can be gone on with": async ({ agent, collect, script, toolCall }) => {
    let ran = 0;
    const options = { call: script(toolCall("act", {}, "a"), "ok"), tools: { act: { run: () => ++ran } } };
    const run = agent({ ...options, messages: [user] });
    for await (const step of run) if (step.type === "tool-start") break;
    equal([ran, run.state.calls.map(({ status }) => status)], [0, ["ready"]]);
    equal((await collect(agent({ ...options, state: run.state }))).at(-1).text, "ok");
    equal(ran, 1);
  },
  "reads Chat Completions over HTTP, cut every 7 bytes": async ({ agent, openai }, origin) => {
    const call = openai({ model: "m", baseURL: `${origin}/v1`, apiKey: "k" });
    let text = "";
    const seen = [];
    for await (const step of agent({ call, tools: { weather: { run: ({ city }) => `4 °C in ${city}` } }, messages: [user] })) {
      if (step.type === "text") text += step.text;
      else seen.push(step.type === "tool-start" ? step.args : step.type === "final" ? step.text : step.type);
    }
    equal(seen, ["message", { city: "Tromsø 🌧" }, "tool-result", "message", "Es sind 4 °C in Tromsø 🌧."]);
    equal(text, "Es sind 4 °C in Tromsø 🌧.");
  },
  "reads the Messages API over HTTP, cut every 7 bytes": async ({ agent, anthropic }, origin) => {
    const call = anthropic({ model: "m", baseURL: origin, apiKey: "k" });
    const seen = [];
    for await (const step of agent({ call, tools: { weather: { run: ({ city }) => city } }, messages: [user] })) {
      if (step.type === "tool-start" || step.type === "final") seen.push(step.args ?? step.text);
    }
    equal(seen, [{ city: "Tromsø 🌧" }, "Gut 🌧"]);
  },
  "hangs up on a server when it is left, or aborted, in the middle of a stream": async ({ agent, openai }, origin) => {
    const hungUp = async (leave, path) => {
      const abort = new AbortController();
      const run = agent({ call: openai({ model: "m", baseURL: `${origin}/${path}/v1`, apiKey: "k" }), messages: [user], signal: abort.signal });
      const error = await thrown(async () => {
        for await (const step of run) if (step.type === "text" && leave(abort)) break;
      });
      equal([run.state.messages.length, run.state.calls], [1, []]);
      for (let i = 0; i < 100; i++, await sleep(50)) if (await (await fetch(`${origin}/${path}/closed`)).json()) return error;
      throw new Error("the server still sends");
    };
    const path = `endless-${Math.random().toString(36).slice(2)}`;
    equal(await hungUp(() => true, `${path}-1`), "nothing was thrown");
    equal(await hungUp((abort) => abort.abort("enough"), `${path}-2`), "enough");
  },
  "tells a server's error": async ({ openai, ModelError }, origin) => {
    const error = await thrown(async () => {
      for await (const _ of openai({ model: "m", baseURL: `${origin}/refused/v1`, apiKey: "k", maxRetries: 0 })([user], [], { signal: new AbortController().signal, step: 1 }));
    });
    equal([error instanceof ModelError, error.status, error.message, error.retryable], [true, 401, "no such key", false]);
  },
  "seals a state and opens it": async ({ agent, script, seal, open, SealError }) => {
    const { state } = agent({ call: script("ok"), messages: [{ role: "user", content: "geheim 🌧" }], id: "r" });
    const keys = { k: new Uint8Array(32).fill(7) };
    const token = await seal(state, { keys, keyId: "k", purpose: "approve", expiresIn: 60_000 });
    equal(/^v1\.k\.[\w-]+\.[\w-]+$/.test(token), true);
    equal(await open(token, { keys, purpose: "approve", id: "r", minRevision: 0 }), state);
    const refusals = [
      await thrown(() => open(token.replace(/.$/, (last) => (last === "A" ? "B" : "A")), { keys, purpose: "approve" })),
      await thrown(() => open(token, { keys, purpose: "other" })),
      await thrown(() => open(token, { keys, purpose: "approve", id: "s" })),
      await thrown(() => open(token, { keys, purpose: "approve", minRevision: 9 })),
      await thrown(async () => {
        const short = await seal(state, { keys, keyId: "k", purpose: "p", expiresIn: 1 });
        await sleep(20);
        await open(short, { keys, purpose: "p" });
      }),
    ];
    equal(refusals.map((error) => error instanceof SealError && error.code), ["invalid", "invalid", "invalid", "stale", "expired"]);
  },
  "shows what hides": async ({ show, suspicious }) => {
    equal(show({ "a\u202e": "\u001b[2J\ud800 ok\u200b", "b": [1, null] }), '{\n  "a\\u202e": "\\u001b[2J\\ud800 ok\\u200b",\n  "b": [\n    1,\n    null\n  ]\n}');
    equal(suspicious({ to: "p\u0430ypal" }), ['to: U+0430 looks like "a"']);
  },
  "asks at the top for an agent inside of an agent, and goes on there from JSON": async ({ agent, collect, script, subagent, toolCall }) => {
    const done = [];
    const act = { needsApproval: true, run: async function* (_, { key }) { yield "half"; done.push(key); return "acted"; } };
    const inside = (name, tool) => subagent({ call: script(toolCall(name, {}, "i"), `${name} is done`), tools: { [name]: tool }, messages: () => [user] });
    const tools = { lead: inside("clerk", inside("act", act)) };
    const call = script(toolCall("lead", {}, "o"), "ok");
    const paused = await collect(agent({ call, tools, messages: [user], id: "r" }));
    equal(paused.at(-1).pending, [{ id: "o/i/i", tool: "act", args: {}, reason: "approval", path: ["lead", "clerk"] }]);
    const state = JSON.parse(JSON.stringify(paused.at(-1).state));
    const rest = await collect(agent({ call, tools, state, decisions: { "o/i/i": true } }));
    equal(rest.filter(({ type }) => type === "tool-progress").map(({ value }) => value.value?.value ?? value.value?.type ?? value.type), ["tool-start", "tool-start", "half", "tool-result", "message", "tool-result", "message"]);
    equal([done, rest.at(-1).text], [["r/o/i/i"], "ok"]);
  },
  "takes the tools of an MCP client": async ({ mcpTools }) => {
    const tools = await mcpTools({ listTools: async () => ({ tools: [{ name: "a.b", inputSchema: { type: "object" } }] }), callTool: async () => ({ content: [{ type: "text", text: "ok" }] }) });
    equal([Object.keys(tools), tools.a_b.needsApproval, await tools.a_b.run({}, { signal: new AbortController().signal })], [["a_b"], true, "ok"]);
  },
  "refuses wrong options with its own error": async ({ agent, AgentError }) => {
    const error = await thrown(() => agent({ call: 1, messages: [] }));
    equal([error instanceof AgentError, error instanceof Error, error.name, error.code], [true, true, "AgentError", "bad-options"]);
  },
};

/** By name of the case: what failed, or "ok". */
export async function conformance(lib, origin) {
  const results = {};
  for (const [name, run] of Object.entries(CASES)) {
    try {
      await run(lib, origin);
      results[name] = "ok";
    } catch (error) {
      results[name] = String(error?.stack ?? error);
    }
  }
  return results;
}

export const names = Object.keys(CASES);
