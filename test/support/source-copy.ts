/**
 * A copy of the sources that a test changes, checks the types of and runs as a program: what one has to write to add something
 * is shown by adding it. Knows nothing of what is added.
 */
import { execFile } from 'node:child_process'
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'

const ROOT = resolve(import.meta.dirname, '../..')

/** How a program ended. */
export interface Ended {
  readonly exitCode: number
  readonly stdout: string
  readonly stderr: string
}

export interface SourceCopy {
  readonly path: string
  /** Puts `text` before the first place where `mark` stands. */
  insertBefore(file: string, mark: string, text: string): Promise<void>
  /** Writes a new file. */
  write(file: string, text: string): Promise<void>
  /** Checks all types and builds. @returns what the compiler complains about; empty when it is content */
  build(): Promise<string>
  /** Runs the built command line with a home of its own. */
  run(args: readonly string[], environment?: Readonly<Record<string, string>>): Promise<Ended>
  /** Runs a module's text with the copy's packages. */
  evaluate(module: string): Promise<Ended>
  remove(): Promise<void>
}

/** Copies sources, commands and launcher; packages are those of the repository. */
export async function copySources(): Promise<SourceCopy> {
  const path = await mkdtemp(join(tmpdir(), 'trainyard-sources-'))
  for (const name of ['src', 'commands', 'bin', 'package.json', 'tsconfig.json']) {
    const assets = join(ROOT, 'src/assets')
    await cp(join(ROOT, name), join(path, name), { recursive: true, filter: (source) => !source.startsWith(assets) })
  }
  await symlink(join(ROOT, 'node_modules'), join(path, 'node_modules'))
  const home = { PATH: process.env['PATH'] ?? '', HOME: join(path, 'home'), NO_COLOR: '1' }
  const start = (args: readonly string[], environment: Readonly<Record<string, string>> = {}): Promise<Ended> =>
    new Promise((done) => {
      const options = { cwd: path, env: { ...home, ...environment }, maxBuffer: 64 * 1024 ** 2 }
      const child = execFile(process.execPath, args, options, (_error, stdout, stderr) =>
        done({ exitCode: child.exitCode ?? -1, stdout, stderr }),
      )
    })
  return {
    path,
    async insertBefore(file, mark, text) {
      const source = await readFile(join(path, file), 'utf8')
      const at = source.indexOf(mark)
      if (at < 0) throw new Error(`${file} has no "${mark}"`)
      await writeFile(join(path, file), source.slice(0, at) + text + source.slice(at))
    },
    write: (file, text) => writeFile(join(path, file), text),
    async build() {
      const compiler = join(ROOT, 'node_modules/typescript/bin/tsc')
      const checked = await start([compiler, '-p', 'tsconfig.json'])
      if (checked.exitCode !== 0) return checked.stdout + checked.stderr
      const { stdout, stderr } = await start(['src/bundle.js'])
      return stdout + stderr
    },
    run: (args, environment) => start(['bin/trainyard.js', ...args], environment),
    evaluate: (module) => start(['--input-type=module', '--eval', module]),
    remove: () => rm(path, { recursive: true, force: true, maxRetries: 20 }),
  }
}
