/**
 * The deployment trials: the packed package under the conditions of other people's machines, one line each.
 *
 *     npm run build && node test/deployment/trials.js [NAME…] [--short] [--whole] [--tarball FILE]
 *
 * A trial is passed, failed (with the reason, and the code is 1) or skipped (what is missing here: root, a tool). NAME picks trials by a part of
 * their names, `--short` leaves out those that take a minute, `--whole` installs dependencies from the registry as users do. Most want Linux and
 * root, as in a fresh container; tools: iproute2, util-linux, faketime, nginx, caddy, logrotate, prometheus (promtool), tini of Debian.
 */
import { parseArgs } from 'node:util'
import { attempt, installPackage } from './kit.js'
import { TRIALS } from './list.js'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    short: { type: 'boolean', default: false },
    whole: { type: 'boolean', default: false },
    tarball: { type: 'string' },
  },
})
// told once by Node.js for each process that trusts a test's certificate
process.removeAllListeners('warning')

const chosen = TRIALS.filter(
  ({ name }) => positionals.length === 0 || positionals.some((part) => name.toLowerCase().includes(part.toLowerCase())),
)
const counts = { passed: 0, failed: 0, skipped: 0 }
const { root, remove } = await installPackage({ tarball: values.tarball, isWhole: values.whole })
try {
  for (const [index, trial] of chosen.entries()) {
    const startedAt = performance.now()
    const { state, why } =
      values.short && trial.isLong
        ? { state: 'skipped', why: '--short' }
        : await attempt(trial, root, { isShort: values.short })
    counts[state] += 1
    const seconds = ((performance.now() - startedAt) / 1000).toFixed(0)
    const number = String(index + 1).padStart(2)
    console.log(
      `${number} ${state.padEnd(7)} ${trial.name} (${seconds} s)${why === undefined ? '' : `: ${why.replaceAll('\n', ' ')}`}`,
    )
  }
} finally {
  remove()
}
console.log(`trials: ${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped`)
process.exitCode = counts.failed === 0 && chosen.length > 0 ? 0 : 1
