/**
 * `trainyard system-check` (`doctor`): can this machine run the service, and is the service healthy. Every check runs.
 */

import { AppError } from '#base/errors.js'
import type { CommandContext } from '#cli/command/context.js'
import { defineCommand } from '#cli/command/define-command.js'
import { UsageError } from '#cli/command/errors.js'
import { flag } from '#cli/command/flags.js'
import { messageOf } from '#cli/input/input-file.js'
import { type Check, checkDisk, checkServer } from '#cli/local/health-checks.js'
import { plural } from '#cli/terminal/format.js'

export const systemCheck = defineCommand({
  path: ['system-check'],
  summary: 'Check this machine and the service',
  details: 'A failed check is exit 1; a warning is not.',
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
    if (!flags.serverOnly) checks.push(await checkRuntime(context), await checkDisk(context))
    if (!flags.localOnly) checks.push(...(await checkServer(context, await connect())))
    const failed = checks.filter((check) => check.status === 'fail').length
    const warned = checks.filter((check) => check.status === 'warn').length
    output.rows(
      { ok: failed === 0, server: config.get('server'), checks },
      checks,
      [
        { header: 'status', kind: 'status', get: (check) => check.status.toUpperCase() },
        { header: 'scope', get: (check) => check.scope },
        { header: 'check', get: (check) => check.name },
        { header: 'result', get: (check) => check.message, canShrink: true },
      ],
      (check) => `${check.name} ${check.status}`,
    )
    for (const check of checks) if (check.hint !== null) output.hint(check.hint)
    if (failed > 0) {
      throw new AppError('internal', 'check_failed', `${plural(failed, 'check')} failed, ${plural(warned, 'warning')}`)
    }
  },
})

async function checkRuntime({ clock }: CommandContext): Promise<Check> {
  const startMs = clock.monotonicMs()
  const base = { scope: 'local', name: 'onnxruntime' } as const
  try {
    const { createOrtRuntime } = await import('#numerics/runtime/ort-runtime.js')
    createOrtRuntime()
    return {
      ...base,
      status: 'pass',
      duration_ms: clock.monotonicMs() - startMs,
      message: `Node.js ${process.versions.node}, ONNX Runtime loads`,
      hint: null,
    }
  } catch (error) {
    const hint = 'run npm ci again; node and the package must be for this platform'
    return { ...base, status: 'fail', duration_ms: clock.monotonicMs() - startMs, message: messageOf(error), hint }
  }
}
