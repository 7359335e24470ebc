/** Sessions, by Temporal's own client: start them, follow them, decide what waits, and read the report. */
import { Client, Connection, WorkflowIdConflictPolicy, WorkflowIdReusePolicy } from '@temporalio/client';
import type { WorkflowHandle } from '@temporalio/client';
import proto from '@temporalio/proto';

import { EncryptionCodec } from './encryption.mjs';
import type {
  Answer,
  CallDecision,
  Interruption,
  Plan,
  PlanDecision,
  PlanEdit,
  RaisedLimits,
  Report,
  SessionRequest,
  Status,
  UserMessage,
} from './messages.mjs';

const { EventType } = proto.temporal.api.enums.v1;
const LONG_POLL_MS = 60_000;

export class Chargehand {
  private constructor(
    private readonly client: Client,
    private readonly taskQueue: string,
  ) {}

  /** Connect as TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, CHARGEHAND_TASK_QUEUE and CHARGEHAND_ENCRYPTION_KEYS say. */
  static async connect(environment: NodeJS.ProcessEnv = process.env): Promise<Chargehand> {
    const codec = EncryptionCodec.fromEnvironment(environment);
    const connection = await Connection.connect({ address: environment['TEMPORAL_ADDRESS'] ?? 'localhost:7233' });
    const client = new Client({
      connection,
      namespace: environment['TEMPORAL_NAMESPACE'] ?? 'default',
      dataConverter: codec ? { payloadCodecs: [codec] } : {},
    });
    return new Chargehand(client, environment['CHARGEHAND_TASK_QUEUE'] ?? 'chargehand');
  }

  /** Start a session. Its id is the idempotency key: the id of a running one gives that one. */
  async start(request: SessionRequest, id: string): Promise<Session> {
    await this.client.workflow.start('Supervisor', {
      args: [request],
      workflowId: id,
      taskQueue: this.taskQueue,
      workflowIdConflictPolicy: WorkflowIdConflictPolicy.USE_EXISTING,
      workflowIdReusePolicy: WorkflowIdReusePolicy.REJECT_DUPLICATE,
      staticSummary: request.goal.slice(0, 100),
    });
    return this.session(id);
  }

  session(id: string): Session {
    return new Session(this.client, this.client.workflow.getHandle(id));
  }

  async close(): Promise<void> {
    await this.client.connection.close();
  }
}

export class Session {
  constructor(
    private readonly client: Client,
    private readonly handle: WorkflowHandle,
  ) {}

  get id(): string {
    return this.handle.workflowId;
  }

  status(): Promise<Status> {
    return this.handle.query<Status>('status');
  }

  decidePlan(decision: PlanDecision): Promise<Plan> {
    return this.update<Plan>('decide_plan', decision);
  }

  decideCall(decision: CallDecision): Promise<Status> {
    return this.update<Status>('decide_call', decision);
  }

  answer(answer: Answer): Promise<Status> {
    return this.update<Status>('answer', answer);
  }

  raiseLimits(raised: RaisedLimits): Promise<Status> {
    return this.update<Status>('raise_limits', raised);
  }

  tell(message: UserMessage): Promise<Status> {
    return this.update<Status>('tell', message);
  }

  interrupt(interruption: Interruption = {}): Promise<Status> {
    return this.update<Status>('interrupt', interruption);
  }

  editPlan(edit: PlanEdit): Promise<Plan> {
    return this.update<Plan>('edit_plan', edit);
  }

  finishNow(): Promise<Status> {
    return this.handle.executeUpdate<Status, []>('finish_now');
  }

  async cancel(): Promise<void> {
    await this.handle.cancel();
  }

  result(): Promise<Report> {
    return this.handle.result() as Promise<Report>;
  }

  /** Yield the status whenever it has changed, to the end. The server answers when there is news: nothing is polled. */
  async *follow(): AsyncGenerator<Status> {
    let last = '';
    for await (const _ of this.news()) {
      const status = await this.status();
      const seen = JSON.stringify(status);
      if (seen !== last) yield status;
      last = seen;
    }
  }

  /** Wait for events of the history, that of later runs included. */
  private async *news(): AsyncGenerator<void> {
    let runId = '';
    while (true) {
      let nextPageToken: Uint8Array = new Uint8Array();
      let next = '';
      do {
        const page = await this.client.connection.withDeadline(Date.now() + 2 * LONG_POLL_MS, () =>
          this.client.workflowService.getWorkflowExecutionHistory({
            namespace: this.client.options.namespace,
            execution: { workflowId: this.id, runId },
            nextPageToken,
            waitNewEvent: true,
          }),
        );
        nextPageToken = page.nextPageToken;
        const events = page.history?.events ?? [];
        const last = events.at(-1);
        if (last?.eventType === EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW) {
          next = last.workflowExecutionContinuedAsNewEventAttributes?.newExecutionRunId ?? '';
        }
        if (events.length) yield;
      } while (nextPageToken.length);
      if (!next) return;
      runId = next;
    }
  }

  private update<Result>(name: string, message: object): Promise<Result> {
    return this.handle.executeUpdate<Result, [object]>(name, { args: [message] });
  }
}
