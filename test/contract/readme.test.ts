/**
 * Tables of the pages are made from the program's own: commands with an example and their extra exit codes, settings, and
 * endpoints. `UPDATE_GOLDEN=1` rewrites them in place. And the README stays a page that is read to its end.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import type { Endpoint } from '#contract/endpoints/endpoint.js'
import { ENGINE_NODE } from '#contract/endpoints/engine-nodes.js'
import { WORKER } from '#contract/endpoints/worker.js'
import { WORKER_CLAIMS } from '#contract/endpoints/worker-claims.js'
import { commandTable } from '../../commands/program.js'
import { settingKeys, settings } from '../../src/cli/config/schema.js'
import { exitCodes } from '../../src/cli/terminal/exit-codes.js'
import { ENDPOINTS } from '../support/service/with-plugins.js'

const ROOT = path.resolve(import.meta.dirname, '../..')

function expectSection(page: string, name: string, content: string): void {
  const file = path.join(ROOT, page)
  const text = readFileSync(file, 'utf8')
  const pattern = new RegExp(`(<!-- ${name}:start -->\n)[\\s\\S]*?(<!-- ${name}:end -->)`)
  expect(text, `${page} has a section "${name}"`).toMatch(pattern)
  if (process.env['UPDATE_GOLDEN'] === '1') {
    writeFileSync(
      file,
      text.replace(pattern, (_, start: string, end: string) => `${start}${content}\n${end}`),
    )
  }
  expect(readFileSync(file, 'utf8')).toContain(`<!-- ${name}:start -->\n${content}\n<!-- ${name}:end -->`)
}

const cell = (text: string): string => text.replaceAll('|', '\\|')

test('the table of commands is the program’s', async () => {
  const rows = await Promise.all(
    commandTable.map(async (entry) => {
      const command = await entry.load()
      const exits = (command.exits ?? []).map((name) => exitCodes[name].code).join(', ')
      return `| \`${command.path.join(' ')}\` | ${cell(command.summary)} | \`${cell(command.examples[0]?.[0] ?? '')}\` | ${exits} |`
    }),
  )
  expectSection(
    'src/docs/reference/commands.md',
    'commands',
    ['| command | does | for example | extra exits |', '| --- | --- | --- | --- |', ...rows].join('\n'),
  )
})

test('the table of settings is the schema’s', () => {
  const rows = settingKeys.map((key) => {
    const setting = settings[key]
    const shown = setting.default === null ? '' : `\`${JSON.stringify(setting.default)}\``
    const flag = setting.flag === null ? '' : `\`${cell(setting.flag)}\``
    return `| \`${key}\` | ${flag} | ${setting.env.map((name) => `\`${name}\``).join(' ')} | ${cell(shown)} | ${cell(setting.summary)} |`
  })
  expectSection(
    'src/docs/reference/commands.md',
    'settings',
    ['| setting | flag | environment | default | |', '| --- | --- | --- | --- | --- |', ...rows].join('\n'),
  )
})

test('the table of endpoints is that of the service', () => {
  const rows = Object.entries<Endpoint>(ENDPOINTS)
    .filter(([, { tag }]) => tag !== null)
    .map(([key, { aliases, query, scope, summary, origin }]) => {
      const names = [key, ...Object.keys(aliases ?? {})].map((name) => `\`${name.replaceAll('{+', '{')}\``)
      const asked = Object.keys(query?.shape ?? {}).map((name) => `\`${name}\``)
      return `| ${names.join(', ')} | ${cell(summary)} | ${asked.join(', ')} | ${scope} | ${origin} |`
    })
  expectSection(
    'src/docs/reference/api.md',
    'endpoints',
    ['| endpoint | does | query | scope | as |', '| --- | --- | --- | --- | --- |', ...rows].join('\n'),
  )
})

test("the table of a worker's endpoints is their rows", () => {
  const rows = Object.entries<Endpoint>({ ...WORKER_CLAIMS, ...WORKER }).map(([key, { summary, scope }]) => {
    const proof = scope === 'attempt' ? 'the attempt' : `a key of scope ${scope}`
    return `| \`${key.replace('{+', '{')}\` | ${cell(summary)} | ${proof} |`
  })
  expectSection(
    'src/docs/reference/more-machines.md',
    'worker-endpoints',
    ['| endpoint | does | proved by |', '| --- | --- | --- |', ...rows].join('\n'),
  )
})

test("the table of an engine node's endpoints is their rows", () => {
  const rows = Object.entries<Endpoint>(ENGINE_NODE).map(
    ([key, { summary }]) => `| \`${key.replace('{+', '{')}\` | ${cell(summary)} |`,
  )
  expectSection(
    'src/docs/reference/more-machines.md',
    'engine-node-endpoints',
    ['| endpoint | does |', '| --- | --- |', ...rows].join('\n'),
  )
})

test('the README is short', () => {
  expect(readFileSync(path.join(ROOT, 'README.md')).byteLength).toBeLessThanOrEqual(9000)
})
