/**
 * The documentation names only what exists: links and their anchors, paths of the source, npm scripts, and commands of the
 * program with their flags. Pages are README, CONTRIBUTING, SECURITY, CHANGELOG and all of `src/docs`.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { commandTable } from '../../commands/program.js'
import { findEntry, parseCommandLine } from '../../src/cli/command/command-line.js'

const ROOT = path.resolve(import.meta.dirname, '../..')
const FOLDERS = ['src', 'commands', 'test', 'bin']

const pages = [
  'README.md',
  'CONTRIBUTING.md',
  'SECURITY.md',
  'CHANGELOG.md',
  'test/spark/README.md',
  'src/assets/spark/README.md',
  ...['start', 'guides', 'reference', 'internals'].flatMap((shelf) =>
    readdirSync(path.join(ROOT, 'src/docs', shelf))
      .filter((name) => /[.]md$/.test(name))
      .map((name) => `src/docs/${shelf}/${name}`),
  ),
]
const files = FOLDERS.flatMap((folder) =>
  readdirSync(path.join(ROOT, folder), { recursive: true, encoding: 'utf8' }).map((name) =>
    path.posix.join(folder, name.replaceAll(path.sep, '/')),
  ),
)
const scripts = Object.keys(
  (JSON.parse(readFileSync(path.join(ROOT, 'package.json'), 'utf8')) as { scripts: Record<string, string> }).scripts,
)

const read = (page: string): string => readFileSync(path.join(ROOT, page), 'utf8')

/** The text between ``` lines, and the text outside them. */
function splitFences(text: string): { readonly code: readonly string[]; readonly prose: string } {
  const code: string[] = []
  const prose = text.replaceAll(/^```[a-z]*\n([\s\S]*?)^```$/gm, (_, block: string) => {
    code.push(block)
    return ''
  })
  return { code, prose }
}

/** GitHub's anchor of a heading. */
function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
    .trim()
    .replaceAll(' ', '-')
}

function anchorsOf(page: string): string[] {
  return [...splitFences(read(page)).prose.matchAll(/^#+\s+(.*)$/gm)].map(([, heading]) => anchorOf(heading ?? ''))
}

function brokenLinks(page: string): string[] {
  const links = [...splitFences(read(page)).prose.matchAll(/\]\(([^)\s]+)\)/g)].map(([, link]) => link ?? '')
  return links.filter((link) => {
    if (/^[a-z]+:/.test(link)) return false
    const [name = '', anchor] = link.split('#')
    const target = name === '' ? page : path.posix.join(path.posix.dirname(page), name)
    if (!existsSync(path.join(ROOT, target))) return true
    return anchor !== undefined && !anchorsOf(target).includes(anchor)
  })
}

/** Inline code that is a path of the source: from the repository, or the end of one as rooms and folders are named. */
function brokenPaths(page: string): string[] {
  const spans = [...splitFences(read(page)).prose.matchAll(/`([^`\n]+)`/g)].map(([, span]) => span ?? '')
  return spans
    .filter((span) => /^[\w./-]+$/.test(span) && !span.startsWith('.'))
    .filter((span) => /^(src|commands|test|bin)\//.test(span) || /\.ts$/.test(span))
    .filter((span) => {
      const name = span.replace(/\/$/, '')
      return !files.some((file) => file === name || file.endsWith(`/${name}`)) && !existsSync(path.join(ROOT, name))
    })
}

/** Command lines of the program: lines of code blocks, and inline code that starts with its name. */
function commandLines(page: string): string[] {
  const { code, prose } = splitFences(read(page))
  const lines = code.flatMap((block) => {
    const isTranscript = /^\$ /m.test(block)
    return block
      .split('\n')
      .filter((line) => !isTranscript || line.startsWith('$ '))
      .map((line) => line.replace(/^\$ /, ''))
      .filter((line) => /^(npx )?trainyard\s/.test(line))
  })
  const spans = [...prose.matchAll(/`((?:npx )?trainyard\s[^`]+)`/g)].map(([, span]) => span ?? '')
  return [...lines, ...spans].map((line) => line.replace(/^npx /, '').replaceAll(/\s+/g, ' '))
}

/** The words of a command line after the program's name, as a shell reads them; a comment, pipe or redirection ends it. */
function wordsOf(line: string): string[] {
  const command = line.replace(/^trainyard\s+/, '').replace(/\s+[#|>&].*$/, '')
  return [...command.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g)].map(([, a, b, c]) => a ?? b ?? c ?? '')
}

async function problemOf(line: string): Promise<string | null> {
  const words = wordsOf(line)
  if (words[0] === 'help' || words[0]?.startsWith('-')) return null
  const entry = findEntry(words, commandTable)
  if (entry === undefined) return `${line}: no such command`
  try {
    // Inline code may name a command without its arguments.
    const command = await entry.load()
    const isNameOnly = words.join(' ') === command.path.join(' ')
    if (!isNameOnly) parseCommandLine(words, commandTable, command)
    return null
  } catch (error) {
    return `${line}: ${error instanceof Error ? error.message : String(error)}`
  }
}

describe.each(pages)('%s', (page) => {
  test('links lead somewhere', () => {
    expect(brokenLinks(page)).toEqual([])
  })

  test('paths of the source exist', () => {
    expect(brokenPaths(page)).toEqual([])
  })

  test('commands parse', async () => {
    const problems = await Promise.all(commandLines(page).map(problemOf))
    expect(problems.filter((problem) => problem !== null)).toEqual([])
  })

  test('npm scripts exist', () => {
    const named = [...read(page).matchAll(/\bnpm run (?:--silent )?([\w:]+)/g)].map(([, name]) => name ?? '')
    expect(named.filter((name) => !scripts.includes(name))).toEqual([])
  })
})

test('every page stands on a shelf, and those for users are a handbook that is read: start in ten minutes, both in an hour', () => {
  const wordsOf = (shelf: string): number =>
    pages
      .filter((page) => page.startsWith(`src/docs/${shelf}/`))
      .reduce((sum, page) => sum + read(page).split(/\s+/).filter(Boolean).length, 0)
  expect(readdirSync(path.join(ROOT, 'src/docs')).toSorted()).toEqual([
    'guides',
    'internals',
    'pictures',
    'reference',
    'start',
  ])
  expect(pages.filter((page) => page.startsWith('src/docs/start/'))).toHaveLength(3)
  expect(wordsOf('start')).toBeLessThanOrEqual(2000)
  expect(wordsOf('start') + wordsOf('guides')).toBeLessThanOrEqual(12_000)
})

test('the checks find what is wrong', async () => {
  expect(anchorOf('8. What a step reports')).toBe('8-what-a-step-reports')
  expect(await problemOf('trainyard modells list')).toContain('no such command')
  expect(await problemOf('trainyard models list --no-such-flag')).toContain('--no-such-flag')
  expect(await problemOf('trainyard chat m "two words" --temperature 0 # comment')).toBeNull()
  expect(commandLines('README.md').length).toBeGreaterThan(5)
})
