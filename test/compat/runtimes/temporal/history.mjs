// A history as the server would keep it, made without one: what the workflow asked for, and what came back.
import proto from "@temporalio/proto";

const { History } = proto.temporal.api.history.v1;
const payload = (value) => ({ metadata: { encoding: Buffer.from("json/plain") }, data: Buffer.from(JSON.stringify(value)) });
const payloads = (...values) => ({ payloads: values.map(payload) });

class Writer {
  events = [];
  activities = 0;

  add(name, attributes) {
    const type = `EVENT_TYPE_${name.replace(/(?!^)[A-Z]/g, "_$&").toUpperCase()}`;
    this.events.push({ eventId: this.events.length + 1, eventTime: { seconds: 1_800_000_000 + this.events.length }, eventType: type, [`${name[0].toLowerCase()}${name.slice(1)}EventAttributes`]: attributes });
    return this.events.length;
  }

  /** The workflow is woken, and does what follows. */
  task() {
    const scheduledEventId = this.add("WorkflowTaskScheduled", { taskQueue: { name: "q" }, startToCloseTimeout: { seconds: 10 }, attempt: 1 });
    const startedEventId = this.add("WorkflowTaskStarted", { scheduledEventId, identity: "w", requestId: `r${scheduledEventId}` });
    // The first flag makes a replay compare the types and ids of activities, as it does with every history of today.
    this.last = this.add("WorkflowTaskCompleted", { scheduledEventId, startedEventId, identity: "w", sdkMetadata: { coreUsedFlags: [1, 2] } });
  }

  activity(name, args, result) {
    const scheduledEventId = this.add("ActivityTaskScheduled", { activityId: String(++this.activities), activityType: { name }, taskQueue: { name: "q" }, input: payloads(...args), startToCloseTimeout: { seconds: 60 }, workflowTaskCompletedEventId: this.last });
    const startedEventId = this.add("ActivityTaskStarted", { scheduledEventId, identity: "w", requestId: `a${scheduledEventId}`, attempt: 1 });
    this.add("ActivityTaskCompleted", { result: payloads(result), scheduledEventId, startedEventId, identity: "w" });
    this.task();
  }
}

const calls = (name, args, id) => ({ role: "assistant", content: null, tool_calls: [{ id, type: "function", function: { name, arguments: JSON.stringify(args) } }] });
const user = { role: "user", content: "Pay what we owe." };

/** Looks something up, wants to pay, waits for a person, pays, answers. Each option changes one thing of it. */
export function history({ secondReply = calls("pay", { eur: 5 }, "b"), decision = true, paidBy = "pay", paidTwice = false } = {}) {
  const it = new Writer();
  it.add("WorkflowExecutionStarted", { workflowType: { name: "run" }, taskQueue: { name: "q" }, input: payloads([user]), originalExecutionRunId: "11111111-1111-4111-8111-111111111111", firstExecutionRunId: "11111111-1111-4111-8111-111111111111", workflowTaskTimeout: { seconds: 10 }, attempt: 1 });
  it.task();
  it.activity("model", [[user]], calls("lookup", {}, "a"));
  it.activity("lookup", [{}, "w-1/a"], { owed: 5 });
  it.activity("model", [[]], secondReply);
  it.add("WorkflowExecutionSignaled", { signalName: "decide", input: payloads("b", decision), identity: "p" });
  it.task();
  it.activity(paidBy, [{ eur: 5 }, "w-1/b"], "paid");
  if (paidTwice) it.activity(paidBy, [{ eur: 5 }, "w-1/b"], "paid");
  it.activity("model", [[]], { role: "assistant", content: "Paid 5 EUR." });
  it.add("WorkflowExecutionCompleted", { result: payloads({ steps: STEPS, text: "Paid 5 EUR." }), workflowTaskCompletedEventId: it.last });
  return History.fromObject({ events: it.events });
}

const STEPS = ["message", "tool-start", "tool-result", "message", "approval-needed", "tool-start", "tool-result", "message", "final"];
