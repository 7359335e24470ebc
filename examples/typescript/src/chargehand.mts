/** Sessions, by Temporal's own client: start them, follow them, decide what waits, and read the report. */
import { Client, Connection, WorkflowIdReusePolicy } from '@temporalio/client';
import type { WorkflowHandle } from '@temporalio/client';
import proto from '@temporalio/proto';

import { EncryptionCodec } from './encryption.mjs';
import type { Report, SessionRequest, Status, Updates } from './messages.mjs';

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

  /** Start a session. Its id is the idempotency key: that of one that exists is refused, and `session(id)` gives it. */
  async start(request: SessionRequest, id: string): Promise<Session> {
    await this.client.workflow.start('Supervisor', {
      args: [request],
      workflowId: id,
      taskQueue: this.taskQueue,
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

  /** Send an update, by the name and with the content that `Updates` lists. */
  update<Name extends keyof Updates>(
    name: Name,
    ...content: Updates[Name]['content']
  ): Promise<Updates[Name]['answer']> {
    // The type of the arguments is that of `Updates`, which this call cannot express.
    return this.handle.executeUpdate<Updates[Name]['answer'], [object]>(name, { args: content as [object] });
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
}
