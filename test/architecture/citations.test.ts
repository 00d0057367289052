/**
 * A comment that names a file of ours names one that exists.
 *
 * What counts as naming one, in comments of `src/`, `commands/`, `test/` and `bin/`:
 * - anything that ends in `.md`, also in strings, unless it is part of a web address;
 * - a path that begins with `src/`, `commands/`, `test/` or `bin/`, whatever it ends in;
 * - a path with a slash that ends in `.ts`, `.js` or `.py`: from the repository, from `src/`, from the room, or from the folder of the file;
 * - a bare kebab-case name that ends in `.ts` or `.py`: the name of any file here.
 * Names of files that exist only when the program runs (`adapter_config.json`) are none of these.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { ROOT } from './source-tree.js'

const FOLDERS = ['src', 'commands', 'test', 'bin']
const DATA = /^test\/(fixtures|goldens\/(graphs|help))\/|^src\/assets\//
const TOKEN = /[\w.@:/#{}<>*$-]+/g

const files = FOLDERS.flatMap((folder) =>
  readdirSync(path.join(ROOT, folder), { recursive: true, encoding: 'utf8' }).map((name) =>
    path.posix.join(folder, name.replaceAll(path.sep, '/')),
  ),
)
const names = new Set(files.map((file) => path.posix.basename(file)))
const sources = files.filter((file) => /\.(ts|js|py)$/.test(file) && !DATA.test(file))

/** The comments of a TypeScript or JavaScript file; all of a Python file, where strings are comments too. */
function commentsOf(file: string, text: string): string {
  if (file.endsWith('.py')) return text
  return [...text.matchAll(/\/\*[\s\S]*?\*\/|(?:^|\s)\/\/.*$/gm)].map(([comment]) => comment).join('\n')
}

function exists(file: string, name: string): boolean {
  const [first = '', second = ''] = file.split('/')
  const bases = ['.', 'src', `${first}/${second}`, path.posix.dirname(file)]
  const sources = [name, name.replace(/\.js$/, '.ts')] // imports and builds say .js
  return bases.some((base) => sources.some((source) => existsSync(path.join(ROOT, base, source))))
}

/** Files of ours that are named in a text and do not exist. */
function brokenCitations(file: string, text: string): string[] {
  const tokens = (part: string): string[] =>
    [...part.matchAll(TOKEN)]
      .map(([token]) => token.replace(/[.:]+$/, ''))
      .filter((token) => !/:\/\/|[{}<>*$@]/.test(token))
      .map((token) => token.replace(/:\d+(-\d+)?$/, ''))
  const pages = tokens(text).filter((token) => token.endsWith('.md'))
  const paths = tokens(commentsOf(file, text)).filter(
    (token) => /^(src|commands|test|bin)\/[\w-]/.test(token) || /^[\w.-]+\/.*\.(ts|js|py)$/.test(token),
  )
  const bare = tokens(commentsOf(file, text)).filter((token) => /^[a-z0-9-]+(\.test)?\.(ts|py)$/.test(token))
  return [...[...pages, ...paths].filter((token) => !exists(file, token)), ...bare.filter((token) => !names.has(token))]
}

describe('citations', () => {
  test.each([
    ['/** See training-semantics.md. */', ['training-semantics.md']],
    ['/** See README.md and `src/base/errors/errors.ts`. */', []],
    ['/** See https://example.com/docs/gguf.md, and adapter_config.json. */', []],
    ['// see base/nothing.ts', ['base/nothing.ts']],
    ['// see errors.ts and no-such-file.ts', ['no-such-file.ts']],
    ['// held by test/unit/nothing', ['test/unit/nothing']],
    ["const path = 'src/runtime-only.ts'", []],
  ])('%s', (text, broken) => {
    expect(brokenCitations('src/base/errors/errors.ts', text)).toEqual(broken)
  })

  test('every file that is named exists', () => {
    const broken = sources.flatMap((file) =>
      file.endsWith('/citations.test.ts')
        ? []
        : brokenCitations(file, readFileSync(path.join(ROOT, file), 'utf8')).map((name) => `${file}: ${name}`),
    )
    expect(broken).toEqual([])
  })
})
