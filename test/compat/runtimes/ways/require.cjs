const lib = Object.assign({}, ...["", "/anthropic", "/mcp", "/openai", "/seal", "/show", "/subagent", "/testing"].map((path) => require(`yieldagent${path}`)));

exports.run = async (origin) => (await import("./conformance.mjs")).conformance(lib, origin);
