/**
 * The messages of sessions, as far as this example uses them; docs/schemas has all of them, with all of their fields.
 */

export interface Limits {
  max_turns?: number;
  budget_usd?: number;
  /** Seconds, or ISO 8601 such as `PT10M`. */
  deadline?: number | string;
  on_limit?: 'finish' | 'pause';
}

export interface SessionRequest {
  goal: string;
  crew?: string;
  documents?: string[];
  limits?: Limits;
  approval?: 'none' | 'plan';
  questions?: 'none' | 'allowed';
  review?: 'auto' | 'always' | 'never';
}

export interface Subtask {
  id: string;
  agent: string;
  instruction: string;
  depends_on?: string[];
}

export interface Plan {
  subtasks: Subtask[];
  strategy?: 'merge' | 'select' | 'reduce' | 'deliver';
  final_instruction?: string;
}

export interface PlanDecision {
  decision: 'approve' | 'edit' | 'reject';
  plan?: Plan;
  reason?: string;
}

export interface Answer {
  subtask: string;
  decision?: 'answer' | 'decline';
  text?: string;
}

export interface RaisedLimits {
  max_turns?: number;
  budget_usd?: number;
  /** Time from the start of the session: seconds, or ISO 8601. */
  deadline?: number | string;
}

export interface CallDecision {
  call: string;
  hash: string;
  decision: 'approve' | 'edit' | 'reject';
  arguments?: Record<string, unknown>;
  reason?: string;
}

/** A message for agents that run: for that of a subtask, or for all. */
export interface UserMessage {
  text: string;
  subtask?: string;
}

export interface Interruption {
  subtask?: string;
}

export type PlanChange =
  | { edit: 'add'; subtask: Subtask; before?: string }
  | { edit: 'drop'; subtask: string }
  | { edit: 'reword'; subtask: string; instruction: string }
  | { edit: 'reroute'; subtask: string; agent: string }
  | { edit: 'reorder'; subtask: string; before?: string; depends_on?: string[] };

/** Changes to what has not begun of the plan of a running session. */
export interface PlanEdit {
  edits: PlanChange[];
}

/** The updates of a session. */
export interface Updates {
  decide_plan: { content: [PlanDecision]; answer: Plan };
  decide_call: { content: [CallDecision]; answer: Status };
  answer: { content: [Answer]; answer: Status };
  raise_limits: { content: [RaisedLimits]; answer: Status };
  tell: { content: [UserMessage]; answer: Status };
  interrupt: { content: [Interruption]; answer: Status };
  edit_plan: { content: [PlanEdit]; answer: Plan };
  finish_now: { content: []; answer: Status };
}

export interface Question {
  subtask: string;
  agent: string;
  text: string;
}

export interface PendingCall {
  id: string;
  hash: string;
  subtask: string;
  agent: string;
  tool: string;
  arguments: Record<string, unknown>;
}

export interface SubtaskRecord {
  id: string;
  agent: string;
  instruction: string;
  state: string;
}

export interface Status {
  session: string;
  state: string;
  plan: Plan | null;
  subtasks: SubtaskRecord[];
  questions: Question[];
  calls: PendingCall[];
  turns: number;
  max_turns: number;
  spent_usd: number;
  budget_usd: number;
}

export interface Source {
  ref: string;
  title: string;
  quote: string;
}

export interface Report {
  session: string;
  /** Markdown; `[S1]` refers to the first of `sources`. */
  answer: string;
  stop_reason: string;
  sources: Source[];
  gaps: string[];
}
