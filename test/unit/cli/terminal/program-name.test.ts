/** Commands are named as the reader has to type them: with `npx` where npx started the program, and so for other launchers. */
import { expect, test } from 'vitest'
import { commandSpelling } from '#cli/terminal/program-name.js'
import { runCli } from '../../../support/service/run-cli.js'
import { MODEL, page, scriptedService } from '../../../support/service/scripted-service.js'

/** As npm 10 and 11 set them; 11.19 quotes the script. */
const npx = { npm_command: 'exec', npm_lifecycle_event: 'npx', npm_lifecycle_script: 'trainyard' }
const nouns = ['serve', 'models', 'train', 'chat']

test.each([
  [npx, 'npx '],
  [{ ...npx, npm_lifecycle_script: '"trainyard" "demo"' }, 'npx '],
  [{ ...npx, npm_lifecycle_script: "'trainyard' 'demo'" }, 'npx '],
  // as pnpm 12 and bun 1.4 set them
  [{ npm_command: 'dlx', npm_config_user_agent: 'pnpm/12.21.0 npm/? node/? linux x64' }, 'pnpm dlx '],
  [{ ...npx, npm_lifecycle_event: 'bunx' }, 'bunx '],
  [{}, ''],
  // what another program of npx starts, and scripts of a package
  [{ ...npx, npm_lifecycle_script: 'vitest' }, ''],
  [{ npm_command: 'run-script', npm_lifecycle_event: 'start', npm_lifecycle_script: 'trainyard serve' }, ''],
])('%j', (environment, prefix) => {
  const spell = commandSpelling(environment, nouns)
  expect(spell('start it with `trainyard serve`, or trainyard models list | trainyard chat m')).toBe(
    `start it with \`${prefix}trainyard serve\`, or ${prefix}trainyard models list | ${prefix}trainyard chat m`,
  )
})

test.each([
  'install trainyard again with --foreground-scripts',
  'trainyard 0.1.0 listening on http://127.0.0.1:8642',
  '$XDG_STATE_HOME/trainyard models are not here',
  'npx trainyard serve',
  'pnpm dlx trainyard serve',
  'trainyard serves and trainyard train-like words',
])('%s: no command to spell', (text) => {
  expect(commandSpelling(npx, nouns)(text)).toBe(text)
})

test('hints, what to do next and errors, for people and programs', async () => {
  const service = scriptedService({ 'GET /v1/preview/models': { body: page([MODEL], true) } })
  const listed = await runCli(['models', 'list'], { fetch: service.fetch, env: npx, tty: true })
  expect(listed.stderr).toContain(`more: npx trainyard models list --after ${MODEL.id}`)
  const missing = await runCli(['models', 'get', 'nobody'], { fetch: service.fetch, env: npx })
  expect(missing.stderr).toContain('hint: npx trainyard models list\n')
  const refused = await runCli(['models', 'list', '--json'], { env: npx })
  expect(JSON.parse(refused.stderr)).toMatchObject({
    error: { hint: expect.stringContaining('start the service with `npx trainyard serve`') },
  })
  expect((await runCli(['models', 'list'])).stderr).toContain('`trainyard serve`')
})

test.each([
  [
    ['--help'],
    ['Usage: npx trainyard <command> [flags]', '  npx trainyard serve\n', 'Run "npx trainyard <command> --help"'],
  ],
  [['models', '--help'], ['Usage: npx trainyard models <command> [flags]']],
  [
    ['chat', '--help'],
    ['Usage: npx trainyard chat <model>', '  npx trainyard chat email-agent\n'],
  ],
  [['help', 'environment'], ['npx trainyard config list shows every value']],
])('help: %j', async (argv, lines) => {
  const { stdout } = await runCli(argv, { env: npx })
  for (const line of lines) expect(stdout).toContain(line)
  expect((await runCli(argv)).stdout).not.toContain('npx')
})
