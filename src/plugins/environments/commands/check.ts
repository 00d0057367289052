/**
 * `trainyard env check`: what an environment is, and whether it can be trained in. Asks no model.
 */
import { AppError } from '#base/errors/errors.js'
import { defineCommand } from '#cli/command/define-command.js'
import { argument, flag } from '#cli/command/flags.js'
import { formatNumber } from '#cli/terminal/format.js'
import { command } from '#contract/wire/command-words.js'
import { checkEnvironment } from '../check.js'
import { openByFlags, openFlags } from './flags.js'

const MARKS = { ok: 'ok', warning: 'warning', failed: 'FAILED' } as const

export const checkEnv = defineCommand({
  path: ['env', 'check'],
  summary: 'Try an environment without a model',
  details:
    'Says what it is, and whether the same seed makes the same tasks, training and measuring have tasks of their own, and the scorer tells right from wrong.',
  examples: [
    ['trainyard env check reasoning-gym:letter_counting', 'tasks, splits and scorer'],
    ['trainyard env check reasoning-gym:letter_counting --install', 'and fetch the package first'],
  ],
  args: { address: argument.required('address of an environment: trainyard env list') },
  flags: {
    ...openFlags,
    tasks: flag.integer(1, 1000)('--tasks <n>', 'tasks that are looked at; default 16', { default: 16 }),
  },
  next: ['trainyard env eval <address> <model>'],
  async run(context) {
    const { args, flags, output, clock, signal } = context
    const source = await openByFlags(context, args.address, flags)
    try {
      const { description, findings, sample } = await checkEnvironment(source, {
        count: flags.tasks,
        seed: flags.seed,
        clock,
        signal,
      })
      const { name, version, digest, tasks, tools, rewardRange } = description
      output.record({ object: 'environment', ...description, findings, sample }, digest, [
        ['environment', `${name} ${version}`],
        ['tasks', tasks === null ? 'endless' : formatNumber(tasks)],
        ['tools', tools.length === 0 ? 'none' : tools.map((tool) => toolName(tool)).join(', ')],
        ['reward', rewardRange === null ? 'of no stated range' : rewardRange.join(' to ')],
        ...findings.map(({ name: found, outcome, says }) => [found, `${MARKS[outcome]}: ${says}`] as const),
        ...(sample === null ? [] : [['a task', JSON.stringify(sample).slice(0, 300)] as const]),
      ])
      const failed = findings.filter(({ outcome }) => outcome === 'failed')
      if (failed.length > 0) {
        throw new AppError('internal', 'environment_unsound', `${name}: ${failed.map(({ says }) => says).join('; ')}`)
      }
      output.hint(command`trainyard env eval ${args.address} <model>`)
    } finally {
      await source.close()
    }
  },
})

function toolName(tool: Readonly<Record<string, unknown>>): string {
  const { function: described } = tool as { readonly function?: { readonly name?: unknown } }
  return String(described?.name ?? '')
}
