/**
 * `trainyard loops watch`: what happens in a loop, to its end.
 */
import { defineCommand } from '#cli/command/define-command.js'
import { argument } from '#cli/command/flags.js'
import { createLoopCalls } from './loop-calls.js'
import { watchLoop } from './watch-loop.js'

export const watchLoopCommand = defineCommand({
  path: ['loops', 'watch'],
  summary: 'Watch a loop to its end',
  details: 'From its first event on. The exit code is the outcome of the loop. Ctrl-C detaches, the loop goes on.',
  examples: [
    ['trainyard loops watch 0199f3a2-0000-7000-8000-000000000000', 'a line an event'],
    ['trainyard loops watch 0199f3a2-0000-7000-8000-000000000000 --json', 'JSON Lines, with all metrics'],
  ],
  args: { loop: argument.required('id of a loop') },
  flags: {},
  exits: ['not_found', 'job_failed'],
  next: ['trainyard loops pause <id>'],
  async run(context) {
    await watchLoop(context, createLoopCalls(await context.connect(), context.signal), context.args.loop)
  },
})
