/** What a shell makes of commands that hold what a stranger wrote: the same words, and nothing runs. */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { command } from '#contract/wire/command-words.js'

const folder = mkdtempSync(join(tmpdir(), 'trainyard-words-'))
afterAll(() => rmSync(folder, { recursive: true }))

/** The words that a POSIX shell makes of a command, whose program is replaced by one that shows them. */
function wordsOf(line: string): readonly string[] {
  const shown = line.replace(
    /^trainyard/,
    `"${process.execPath}" -e 'console.log(JSON.stringify(process.argv.slice(1)))' --`,
  )
  return JSON.parse(execFileSync('sh', ['-c', shown], { cwd: folder, encoding: 'utf8' })) as string[]
}

it.each([
  'plain',
  'x;touch PWNED;echo',
  '$(touch PWNED)',
  '`touch PWNED`',
  "it's; touch PWNED",
  '"; touch PWNED; "',
  'a\ntouch PWNED',
  '\\',
  '',
  'ünï 🚂 *',
  '~root',
  '#no comment',
])('%j is one word', (name) => {
  expect(wordsOf(command`trainyard chat ${name} -- ${name}`)).toEqual(['chat', name, '--', name])
  expect(wordsOf(command`trainyard chat ${['--project', name]} ${3}`)).toEqual(['chat', '--project', name, '3'])
  expect(existsSync(join(folder, 'PWNED'))).toBe(false)
})
