/**
 * `trainyard system-check` (`doctor`): can this machine run the service, and is the service healthy. Every check runs.
 */

import { AppError } from '#base/errors/errors.js'
import { append } from '#base/util/lists.js'
import type { CommandContext } from '#cli/command/context.js'
import { defineCommand } from '#cli/command/define-command.js'
import { flag } from '#cli/command/flags.js'
import { messageOf } from '#cli/input/input-file.js'
import { type Check, checkDisk, checkServer } from '#cli/local/health-checks.js'
import { UsageError } from '#cli/terminal/errors.js'
import { formatNumber, plural } from '#cli/terminal/format.js'

export const systemCheck = defineCommand({
  path: ['system-check'],
  summary: 'Check this machine and the service',
  details:
    'Both versions, the key in use and whom it is for, the graphics cards, and whether all of it works. A failed check is exit 1; a warning is not.',
  examples: [
    ['trainyard system-check', 'this machine, then the service'],
    ['trainyard doctor --server-only --json', 'only the service, for scripts'],
  ],
  args: {},
  flags: {
    localOnly: flag.switch('--local-only', 'leave the service alone'),
    serverOnly: flag.switch('--server-only', 'leave this machine alone'),
  },
  async run(context) {
    const { connect, output, config, flags } = context
    if (flags.localOnly && flags.serverOnly)
      throw new UsageError('invalid_argument', 'choose --local-only or --server-only')
    const checks: Check[] = []
    if (!flags.serverOnly)
      append(checks, [...(await checkMachine(context)), await checkDisk(context), await checkCards(context)])
    if (!flags.localOnly) append(checks, await checkServer(context, await connect()))
    const failed = checks.filter((check) => check.status === 'fail').length
    const warned = checks.filter((check) => check.status === 'warn').length
    output.rows(
      { ok: failed === 0, server: config.get('server'), checks },
      checks,
      [
        { header: 'status', kind: 'status', get: (check) => check.status.toUpperCase() },
        { header: 'scope', get: (check) => check.scope, rank: 1 },
        { header: 'check', get: (check) => check.name },
        { header: 'result', get: (check) => check.message, canWrap: true },
      ],
      (check) => `${check.name} ${check.status}`,
    )
    for (const check of checks) if (check.hint !== null) output.hint(check.hint)
    if (failed > 0) {
      throw new AppError('internal', 'check_failed', `${plural(failed, 'check')} failed, ${plural(warned, 'warning')}`)
    }
  },
})

/** Runs a check of this machine, timed; what it throws is its failure. */
async function checkLocal(
  { clock }: CommandContext,
  name: string,
  run: () => Promise<string>,
  otherwise: string,
): Promise<Check> {
  const startMs = clock.monotonicMs()
  const outcome = await run().then(
    (message) => ({ status: 'pass', message, hint: null }) as const,
    (error: unknown) => {
      const hint = error instanceof AppError ? (error.hint ?? otherwise) : otherwise
      return { status: 'fail', message: messageOf(error), hint } as const
    },
  )
  return { scope: 'local', name, duration_ms: clock.monotonicMs() - startMs, ...outcome }
}

/** What there is to compute on beside the processor. */
async function checkCards({ clock }: CommandContext): Promise<Check> {
  const startMs = clock.monotonicMs()
  const { listCards } = await import('#base/processes/graphics-cards.js')
  const cards = (await listCards()).map(({ name }) => name)
  const message = cards.length === 0 ? 'none; the processor computes' : `${cards.join(', ')} (serve --device auto)`
  const base = { scope: 'local', name: 'graphics cards', status: 'pass', hint: null } as const
  return { ...base, duration_ms: clock.monotonicMs() - startMs, message }
}

/** The parts that are compiled for this machine, and whether they compute what they should. */
async function checkMachine(context: CommandContext): Promise<readonly Check[]> {
  const reinstall = 'install the package again: node and the package must be for this platform'
  const loadRuntime = async () => (await import('#numerics/runtime/ort-runtime.js')).createOrtRuntime()
  return [
    await checkLocal(
      context,
      'onnxruntime',
      async () => `Node.js ${process.versions.node}, ${(await loadRuntime()).name} loads, on the CPU`,
      reinstall,
    ),
    await checkLocal(
      context,
      'gradients',
      async () => {
        const { checkGradients } = await import('#numerics/self-test/gradients.js')
        const results = await checkGradients(await loadRuntime())
        const wrong = results.filter((each) => !each.isPassed)
        if (wrong.length === 0) return `${plural(results.length, 'operator')} agree with central differences`
        const named = wrong.map(({ operator, error }) => `${operator} (off by ${formatNumber(error)})`)
        throw new AppError('internal', 'wrong_gradients', `wrong gradients of ${named.join(', ')}`)
      },
      'what is trained on this machine is not to be trusted; tell its processor and system in an issue',
    ),
    await checkLocal(
      context,
      'sqlite',
      async () => `SQLite ${(await import('#service/storage/sqlite.js')).assertSqliteLoads()} loads`,
      reinstall,
    ),
    await checkLocal(
      context,
      'plugins',
      async () => `${plural((await (await import('#plugins/check.js')).checkPlugins()).length, 'plugin')} load`,
      'leave out the plugin that is named, or install the package again',
    ),
  ]
}
