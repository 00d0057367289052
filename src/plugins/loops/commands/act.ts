/**
 * `trainyard loops pause`, `resume` and `cancel`.
 */
import { defineCommand } from '#cli/command/define-command.js'
import { argument } from '#cli/command/flags.js'
import { command } from '#contract/wire/command-words.js'
import { createLoopCalls } from './loop-calls.js'

const ID = '0199f3a2-0000-7000-8000-000000000000'

function loopAction(
  action: 'pause' | 'resume' | 'cancel',
  words: { readonly summary: string; readonly details: string; readonly done: string; readonly next: string },
) {
  return defineCommand({
    path: ['loops', action],
    summary: words.summary,
    details: words.details,
    examples: [
      [command`trainyard loops ${action} ${ID}`, 'by its id'],
      [command`trainyard loops ${action} ${ID} -q`, 'and print only its id'],
    ],
    args: { loop: argument.required('id of a loop') },
    flags: {},
    exits: ['not_found', 'conflict'],
    next: [words.next],
    async run({ connect, output, args, signal }) {
      const loop = await createLoopCalls(await connect(), signal).act(args.loop, action)
      output.result(loop, `${words.done}; it is ${loop.status}, ${loop.step} of ${loop.steps} steps done`, [loop.id])
    },
  })
}

export const pauseLoop = loopAction('pause', {
  summary: 'Pause a loop at the next border of phases',
  details: 'What it was doing is finished; the model can be used and goes on with resume.',
  done: 'The loop pauses',
  next: 'trainyard loops resume <id>',
})

export const resumeLoop = loopAction('resume', {
  summary: 'Let a paused loop go on',
  details: 'From where it paused, to the same end as without a pause. Limits count anew.',
  done: 'The loop goes on',
  next: 'trainyard loops watch <id>',
})

export const cancelLoop = loopAction('cancel', {
  summary: 'End a loop and the job of its step',
  details: 'The model keeps the checkpoints of the steps that have ended.',
  done: 'The loop is over',
  next: 'trainyard loops list',
})
