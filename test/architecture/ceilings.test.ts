/**
 * What the tree may still be, and only less of: today's numbers stand in `ceilings.json`, and nothing may add to them. Who makes one smaller
 * lowers it there in the same commit; a function that is no longer long leaves its list. The numbers wanted are those of the plan of core
 * and plugins.
 *
 * What a process loads is followed through static imports that are there at run time, without packages; what is loaded when it is
 * called does not count. A server's start loads the rows and tables of plugins, too.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import ts from 'typescript'
import { expect, test } from 'vitest'
import { ROOT, readSourceTree, type SourceFile } from './source-tree.js'

interface Ceilings {
  /** `file: name` → lines, of each function over `FUNCTION_LINES`. */
  readonly functions: Readonly<Record<string, number>>
  readonly counts: Readonly<Record<keyof typeof COUNTS, number>>
  /** Lines that are loaded before the process has anything to do. */
  readonly loaded: Readonly<Record<keyof typeof ENTRIES, number>>
}

const FUNCTION_LINES = 100
const SMALL_FILE_LINES = 60
const COMMENT_COLUMNS = 130
const ENTRIES = {
  server: ['commands/main.ts', 'commands/serve.ts', 'src/service/create-service.ts', 'src/plugins/service.ts'],
  worker: ['src/training/worker/main.ts'],
  'engine host': ['src/inference/host/main.ts'],
  'train rl': ['commands/main.ts', 'commands/train/rl.ts'],
} as const

const ceilings = JSON.parse(readFileSync(path.join(import.meta.dirname, 'ceilings.json'), 'utf8')) as Ceilings
const files = readSourceTree()
const byPath = new Map(files.map((file) => [file.path, file]))

const COUNTS = {
  'files of the core': () => code().length,
  'lines of the core': () => code().reduce((sum, { lineCount }) => sum + lineCount, 0),
  'comment lines longer than 130 columns': () =>
    files.reduce((sum, { text }) => sum + text.split('\n').filter(isLongComment).length, 0),
  'unit tests that mirror no source': () => unitTests().filter((name) => !existsSync(path.join(ROOT, name))).length,
  'files of at most 60 lines whose one reader lies beside them': () => files.filter(isCutOut).length,
  'exports that no other file names': () => unusedExports().length,
}

/** What a start loads of plugins. */
const ofPlugins = files
  .map((file) => file.path)
  .filter((name) => /^src\/plugins\/[^/]+\/(endpoints|storage\/schema-part)\.ts$/.test(name))

/** Without plugins, and without the page, which is bundled by itself. */
const code = (): readonly SourceFile[] => files.filter(({ path: name }) => !name.startsWith('src/plugins/'))

const isLongComment = (line: string): boolean => line.length > COMMENT_COLUMNS && /^\s*(\/\/|\/?\*)/.test(line)

/** The sources that unit tests are named after. */
const unitTests = (): readonly string[] =>
  readdirSync(path.join(ROOT, 'test/unit'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.test.ts'))
    .map((name) => `src/${name.replaceAll(path.sep, '/').replace(/\.test\.ts$/, '.ts')}`)

function isCutOut({ path: name, lineCount }: SourceFile): boolean {
  if (lineCount > SMALL_FILE_LINES) return false
  const readers = files.filter(({ imports }) => imports.some(({ target }) => target === name))
  // what its reader loads when it is called cannot stand in it
  if (readers[0]?.imports.some(({ target, isDynamic }) => target === name && isDynamic) === true) return false
  return readers.length === 1 && path.posix.dirname(readers[0]?.path ?? '') === path.posix.dirname(name)
}

/** `file: name` of what is exported, and stands in no other file of the sources or the tests. */
function unusedExports(): readonly string[] {
  const tests = readdirSync(path.join(ROOT, 'test'), { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.[jt]sx?$/.test(name))
    .map((name) => readFileSync(path.join(ROOT, 'test', name), 'utf8'))
  const named = new Map<string, number>()
  for (const text of [...files.map((file) => file.code), ...tests]) {
    for (const word of new Set(text.match(/[A-Za-z_$][\w$]*/g))) named.set(word, (named.get(word) ?? 0) + 1)
  }
  return files.flatMap(({ path: name, code: text }) =>
    [...text.matchAll(/^export (?:abstract |async )?(?:const|function\*?|class|interface|type|enum) ([\w$]+)/gm)]
      .map((match) => match[1] ?? '')
      .filter((word) => named.get(word) === 1)
      .map((word) => `${name}: ${word}`),
  )
}

function longFunctions({ path: name, text }: SourceFile): readonly (readonly [string, number])[] {
  const source = ts.createSourceFile(name, text, ts.ScriptTarget.Latest, true)
  const found: (readonly [string, number])[] = []
  const visit = (node: ts.Node): void => {
    if (ts.isFunctionLike(node)) {
      const from = source.getLineAndCharacterOfPosition(node.getStart(source)).line
      const lines = source.getLineAndCharacterOfPosition(node.getEnd()).line - from + 1
      if (lines > FUNCTION_LINES) found.push([`${name}: ${nameOf(node, source)}`, lines])
    }
    ts.forEachChild(node, visit)
  }
  visit(source)
  return found
}

function nameOf(node: ts.SignatureDeclaration, source: ts.SourceFile): string {
  if (node.name !== undefined) return node.name.getText(source)
  const { parent } = node
  return ts.isVariableDeclaration(parent) || ts.isPropertyAssignment(parent)
    ? parent.name.getText(source)
    : 'without a name'
}

/** Files that are read when these are. */
function loadedBy(entries: readonly string[]): ReadonlySet<string> {
  const seen = new Set<string>()
  const waiting = [...entries]
  for (let name = waiting.pop(); name !== undefined; name = waiting.pop()) {
    const file = byPath.get(name)
    if (file === undefined || seen.has(name)) continue
    seen.add(name)
    for (const { target, isDynamic, isTypeOnly } of file.imports) {
      if (target !== null && !isDynamic && !isTypeOnly) waiting.push(target)
    }
  }
  return seen
}

test('no function grows beyond a hundred lines, and long ones only shrink', () => {
  const found = Object.fromEntries(files.flatMap(longFunctions))
  const grown = Object.entries(found).filter(([name, lines]) => lines > (ceilings.functions[name] ?? 0))
  expect(grown).toEqual([])
  // what is shorter now is taken off, or lowered
  expect(Object.keys(ceilings.functions).filter((name) => !(name in found))).toEqual([])
})

test.each(Object.keys(COUNTS) as (keyof typeof COUNTS)[])('%s: no more than there were', (name) => {
  const count = COUNTS[name]()
  process.stdout.write(`${String(count).padStart(7)} ${name}, at most ${ceilings.counts[name]}\n`)
  expect(count).toBeLessThanOrEqual(ceilings.counts[name])
})

test.each(Object.keys(ENTRIES) as (keyof typeof ENTRIES)[])(
  'what is loaded of lines by a %s: no more than was',
  (name) => {
    const loaded = loadedBy(name === 'server' ? [...ENTRIES.server, ...ofPlugins] : ENTRIES[name])
    for (const entry of ENTRIES[name]) expect(loaded).toContain(entry)
    const lines = [...loaded].reduce((sum, file) => sum + (byPath.get(file)?.lineCount ?? 0), 0)
    process.stdout.write(
      `${String(lines).padStart(7)} lines in ${loaded.size} files by ${name}, at most ${ceilings.loaded[name]}\n`,
    )
    expect(lines).toBeLessThanOrEqual(ceilings.loaded[name])
  },
)
