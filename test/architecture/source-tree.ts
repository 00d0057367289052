/**
 * Reads the source tree as text: files, their imports, and the room a path belongs to. Knows no rule.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'

export const ROOT = path.resolve(import.meta.dirname, '../..')

export interface SourceFile {
  /** Relative to the repository, with forward slashes. */
  readonly path: string
  readonly text: string
  /** The text without comments. */
  readonly code: string
  readonly lineCount: number
  readonly imports: readonly {
    readonly specifier: string
    readonly isDynamic: boolean
    /** Gone at run time: `import type`. */
    readonly isTypeOnly: boolean
    readonly target: string | null
  }[]
}

/** All TypeScript files, also with markup, below `src/` and `commands/`. */
export function readSourceTree(): SourceFile[] {
  return ['src', 'commands'].flatMap((folder) =>
    readdirSync(path.join(ROOT, folder), { recursive: true, encoding: 'utf8' })
      .filter((name) => /\.tsx?$/.test(name))
      .map((name) => readSourceFile(path.posix.join(folder, name.replaceAll(path.sep, '/')))),
  )
}

/** What browsers run, whichever plugin it is of. */
const BROWSER = /^src\/plugins\/[^/]+\/browser\//

/** The room of a repository path: a folder below `src/`, a file directly in it, `commands`, or what browsers run. */
export function roomOf(file: string): string {
  if (file.startsWith('commands/')) return 'commands'
  if (BROWSER.test(file)) return 'browser'
  const [, room = ''] = file.split('/')
  return room.replace(/\.tsx?$/, '')
}

/** The folder or file directly inside its room. */
export function innerOf(file: string): string {
  return (file.replace(BROWSER, 'src/browser/').split('/')[2] ?? '').replace(/\.tsx?$/, '')
}

function readSourceFile(file: string): SourceFile {
  const text = readFileSync(path.join(ROOT, file), 'utf8')
  const code = text.replaceAll(/\/\*[\s\S]*?\*\//g, '').replaceAll(/^\s*\/\/.*$/gm, '')
  const imports = [
    ...[...code.matchAll(/^\s*(?:import|export)\s(type\s)?[^;'"`]*?from\s*'([^']+)'/gm)].map(
      (match) => [match[2] ?? '', false, match[1] !== undefined] as const,
    ),
    ...[...code.matchAll(/^\s*import\s*'([^']+)'/gm)].map((match) => [match[1] ?? '', false, false] as const),
    ...[...code.matchAll(/\bimport\(\s*'([^']+)'\s*\)/g)].map((match) => [match[1] ?? '', true, false] as const),
  ].map(([specifier, isDynamic, isTypeOnly]) => ({
    specifier,
    isDynamic,
    isTypeOnly,
    target: resolveTarget(file, specifier),
  }))
  return { path: file, text, code, lineCount: text.split('\n').length - 1, imports }
}

function resolveTarget(file: string, specifier: string): string | null {
  if (specifier.startsWith('#')) return `src/${specifier.slice(1).replace(/\.js$/, '.ts')}`
  if (specifier.startsWith('.')) return toSource(path.posix.join(path.posix.dirname(file), specifier))
  return null
}

/** The source of a built file; the page's may hold markup. */
function toSource(file: string): string {
  const source = file.replace(/\.js$/, '.ts')
  return existsSync(path.join(ROOT, source)) || !BROWSER.test(file) ? source : `${source}x`
}
