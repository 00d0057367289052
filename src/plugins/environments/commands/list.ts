/**
 * `trainyard env list`: which kinds of environments there are.
 */
import { defineCommand } from '#cli/command/define-command.js'
import { SOURCES } from '../sources/table.js'

export const listKinds = defineCommand({
  path: ['env', 'list'],
  summary: 'List the kinds of environments',
  details: 'An address is a kind, a colon, and what is meant; a module of your own is named by its path.',
  examples: [
    ['trainyard env list', 'each kind with an example'],
    ['trainyard env list --json', 'for a program'],
  ],
  args: {},
  flags: {},
  next: ['trainyard env check <address>'],
  async run({ output }) {
    const rows = SOURCES.map(({ scheme, target, summary, example }) => ({ kind: scheme, target, summary, example }))
    output.rows(
      { object: 'list', data: rows },
      rows,
      [
        { header: 'KIND', get: ({ kind }) => kind },
        { header: 'IS', get: ({ summary }) => summary, canShrink: true },
        { header: 'EXAMPLE', get: ({ example }) => example },
      ],
      ({ kind }) => kind,
    )
  },
})
