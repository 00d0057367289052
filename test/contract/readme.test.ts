/**
 * The tables of the page of commands are made from the program's own: commands with an example and their extra exit codes, and
 * settings. `UPDATE_GOLDEN=1` rewrites them in place. And the README stays a page that is read to its end.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { commandTable } from '../../commands/program.js'
import { exitCodes } from '../../src/cli/command/exit-codes.js'
import { settings } from '../../src/cli/config/schema.js'

const ROOT = path.resolve(import.meta.dirname, '../..')
const PAGE = path.join(ROOT, 'src/docs/commands.md')

function expectSection(name: string, content: string): void {
  const text = readFileSync(PAGE, 'utf8')
  const pattern = new RegExp(`(<!-- ${name}:start -->\n)[\\s\\S]*?(<!-- ${name}:end -->)`)
  expect(text, `src/docs/commands.md has a section "${name}"`).toMatch(pattern)
  if (process.env['UPDATE_GOLDEN'] === '1') {
    writeFileSync(
      PAGE,
      text.replace(pattern, (_, start: string, end: string) => `${start}${content}\n${end}`),
    )
  }
  expect(readFileSync(PAGE, 'utf8')).toContain(`<!-- ${name}:start -->\n${content}\n<!-- ${name}:end -->`)
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
    'commands',
    ['| command | does | for example | extra exits |', '| --- | --- | --- | --- |', ...rows].join('\n'),
  )
})

test('the table of settings is the schema’s', () => {
  const rows = Object.entries(settings).map(([key, setting]) => {
    const shown = setting.default === null ? '' : `\`${JSON.stringify(setting.default)}\``
    const flag = setting.flag === null ? '' : `\`${cell(setting.flag)}\``
    return `| \`${key}\` | ${flag} | ${setting.env.map((name) => `\`${name}\``).join(' ')} | ${cell(shown)} | ${cell(setting.summary)} |`
  })
  expectSection(
    'settings',
    ['| setting | flag | environment | default | |', '| --- | --- | --- | --- | --- |', ...rows].join('\n'),
  )
})

test('the README is short', () => {
  expect(readFileSync(path.join(ROOT, 'README.md')).byteLength).toBeLessThanOrEqual(9000)
})
