export { agent, type AgentOptions, type AgentRun, type Step, type Tools } from "./agent.ts";
export { type Decision, type PendingReason } from "./decision.ts";
export { AgentError, type AgentErrorCode } from "./error.ts";
export { type Approve } from "./gate.ts";
export { type Args } from "./json.ts";
export { type Call, type ContentPart, type Delta, type Message, type Reply, type ToolCall, type ToolDefinition, type Usage } from "./message.ts";
export { type StandardSchema } from "./standard-schema.ts";
export { type OpenCall, pending, type PendingCall, type State, type Totals } from "./state.ts";
export { type ApprovalContext, type JsonSchema, type RunContext, tool, type Tool } from "./tool.ts";
