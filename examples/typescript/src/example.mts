/**
 * Ask a question, edit the plan, answer what agents ask, raise a limit that is reached, and print the report:
 *
 *     npm start -- "What does the handbook say about wind limits?" wind-1
 */
import { randomUUID } from 'node:crypto';

import { Chargehand } from './chargehand.mjs';
import type { Session } from './chargehand.mjs';
import type { Plan, Status } from './messages.mjs';

const [goal = 'What are the wind limits?', id = `example-${randomUUID()}`] = process.argv.slice(2);

const chargehand = await Chargehand.connect();
const session = await chargehand.start(
  { goal, approval: 'plan', questions: 'allowed', limits: { max_turns: 10, on_limit: 'pause' } },
  id,
);
for await (const status of session.follow()) {
  console.error(`${status.state}: ${status.turns} of ${status.max_turns} turns, $${status.spent_usd}`);
  await decide(session, status);
}
const report = await session.result();
console.log(report.answer);
for (const [index, source] of report.sources.entries()) console.log(`[S${index + 1}] ${source.ref}`);
await chargehand.close();

/** Do what the session waits for. In a program of yours, a person does. */
async function decide(session: Session, status: Status): Promise<void> {
  if (status.state === 'awaiting_approval' && status.plan) {
    await session.update('decide_plan', { decision: 'edit', plan: shorter(status.plan) });
  }
  for (const question of status.questions) {
    await session.update('answer', { subtask: question.subtask, text: 'The latest one that the documents name.' });
  }
  for (const call of status.calls) {
    await session.update('decide_call', { call: call.id, hash: call.hash, decision: 'reject', reason: 'Only read, please.' });
  }
  if (status.state === 'paused') await session.update('raise_limits', { max_turns: status.max_turns + 10 });
}

function shorter(plan: Plan): Plan {
  return { ...plan, final_instruction: 'Three sentences at most.' };
}
