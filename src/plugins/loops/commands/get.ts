/**
 * `trainyard loops get`: one loop, with its evaluations.
 */
import { defineCommand } from '#cli/command/define-command.js'
import { argument } from '#cli/command/flags.js'
import { createLoopCalls } from './loop-calls.js'

export const getLoopCommand = defineCommand({
  path: ['loops', 'get'],
  summary: 'Show a loop',
  details: 'Its state, and the mean reward of the held-out prompts at each evaluation.',
  examples: [
    ['trainyard loops get 0199f3a2-0000-7000-8000-000000000000', 'by its id'],
    ['trainyard loops get 0199f3a2-0000-7000-8000-000000000000 --json', 'with all that was chosen'],
  ],
  args: { loop: argument.required('id of a loop') },
  flags: {},
  exits: ['not_found'],
  next: ['trainyard loops watch <id>'],
  async run({ connect, output, args, signal }) {
    const loop = await createLoopCalls(await connect(), signal).get(args.loop)
    output.record(loop, loop.id, [
      ['id', loop.id],
      ['model', loop.model_id],
      ['status', loop.phase === null ? loop.status : `${loop.status}, ${loop.phase}`],
      ['step', `${loop.step} of ${loop.steps}`],
      ...loop.evaluations.map(
        ({ step, valid_reward: reward, checkpoint_step: of }) =>
          [`reward ${step}`, `${reward.toFixed(3)}, checkpoint ${of}`] as const,
      ),
      ...(loop.error === null ? [] : [['error', `${loop.error.code}: ${loop.error.message}`] as const]),
    ])
  },
})
