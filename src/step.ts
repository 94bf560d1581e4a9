import type { Decision } from "./decision.ts";
import type { Args } from "./json.ts";
import type { Message, Usage } from "./message.ts";
import type { PendingCall, State } from "./state.ts";

/**
 * What a run tells whoever iterates it. Plain JSON, frozen or copied. `Input` and `Inner` are those of the run's tools,
 * by name: their arguments, and the steps of those that are agents themselves.
 */
export type Step<Input = Record<string, Args>, Inner = unknown> =
  /** A piece of a streaming reply, as it arrives. */
  | { readonly type: "text" | "reasoning"; readonly text: string }
  /** A reply has entered the conversation. */
  | { readonly type: "message"; readonly message: Readonly<Message>; readonly usage?: Usage; readonly finishReason?: string }
  /** A tool is about to run. */
  | PerTool<Input, { readonly type: "tool-start" }>
  /** A tool that runs has something to tell. It goes on when the next step is asked for. */
  | Progress<Input, Inner>
  /** A call has its result; exactly one for each call. */
  | PerTool<Input, { readonly type: "tool-result"; readonly decision?: Decision } & ({ readonly result: unknown } | { readonly error: string })>
  /** The run ends: it goes on with `agent({ state, decisions })`. */
  | { readonly type: "approval-needed"; readonly pending: readonly (PerTool<Input, Pick<PendingCall, "reason"> & { readonly path?: undefined }> | Within<Inner>)[]; readonly state: State }
  /** The run ends. `reason` is the provider's finish reason (`stop` if it gave none) or `max-steps`. */
  | { readonly type: "final"; readonly text: string | null; readonly reason: string; readonly messages: Message[]; readonly state: State };

/** For each tool a member of the union, so that its name narrows its arguments. */
type PerTool<Input, Fields> = {
  [Name in keyof Input & string]: { readonly id: string; readonly tool: Name; readonly args: ArgsOf<Input[Name]> } & Fields;
}[keyof Input & string];
/** Spelt out field by field, since an interface, unlike a type, is no `Args`. */
type ArgsOf<T> = unknown extends T ? Args : { [Field in keyof T]: T[Field] };

type Progress<Input, Inner> = {
  [Name in keyof Input & string]: { readonly type: "tool-progress"; readonly id: string; readonly tool: Name; readonly value: Name extends keyof Inner ? Inward<Inner[Name]> : unknown };
}[keyof Input & string];

/** The steps that come up from an agent inside; the last one becomes the tool's result, or its pause. */
export type Inward<S> = Exclude<S, { readonly type: "approval-needed" | "final" }>;

/** What waits inside of tools. Where nothing is known of them, anything may. */
type Within<Inner> = unknown extends Inner ? PendingCall : string extends keyof Inner ? PendingCall : { [Name in keyof Inner & string]: Below<Inner[Name], Name> }[keyof Inner & string];
type Below<S, Name extends string> = S extends { readonly type: "approval-needed"; readonly pending: readonly (infer Call)[] }
  ? Call extends { readonly path?: infer Path } ? Omit<Call, "path"> & { readonly path: readonly [Name, ...(Path extends readonly string[] ? Path : [])] } : never
  : never;
