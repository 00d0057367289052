/**
 * Which Python an environment's process is: the one that was named, else a virtual environment of the data folder that holds
 * what it needs, else `python3` where the package is there. With `--install` such an environment is made; without it nothing
 * is fetched.
 */
import { createHash } from 'node:crypto'
import { mkdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { InvalidRequestError } from '#base/errors/errors.js'
import { readProgram } from '#base/processes/start-process.js'
import { EnvironmentFailure } from './failures.js'
import type { SourceSetup } from './source.js'

const [PROBE_MS, INSTALL_MS] = [60_000, 1_800_000]

interface PythonNeeds {
  /** What is imported. */
  readonly module: string
  /** As pip takes them; they name the environment that holds them. */
  readonly requirements: readonly string[]
}

/** @throws {InvalidRequestError} `python_package_missing` with the command that fetches it */
export async function findPython(
  setup: Pick<SourceSetup, 'python' | 'install' | 'dataDir' | 'environment' | 'variables' | 'say'>,
  needs: PythonNeeds,
): Promise<string> {
  const { python, install, dataDir, environment, variables } = setup
  const inherits = { environment, needs: ['python', 'calling'] as const, given: variables }
  const has = async (interpreter: string): Promise<boolean> => {
    // looked for and not imported, which may take seconds
    const code = `import importlib.util, sys; sys.exit(0 if importlib.util.find_spec(${JSON.stringify(needs.module)}) else 1)`
    return await readProgram(interpreter, ['-c', code], { ...inherits, timeoutMs: PROBE_MS }).then(
      () => true,
      () => false,
    )
  }
  if (python !== null) {
    if (await has(python)) return python
    throw missing(`${python} has no module ${needs.module}`, needs)
  }
  const own = ownInterpreter(dataDir, needs)
  if ((await stat(own.interpreter).catch(() => null)) !== null) return own.interpreter
  if (await has('python3')) return 'python3'
  if (!install) throw missing(`no Python with ${needs.module} was found`, needs)
  await makeEnvironment(setup, needs, own)
  return own.interpreter
}

function ownInterpreter(dataDir: string, { requirements }: PythonNeeds) {
  const digest = createHash('sha256').update(requirements.join('\n')).digest('hex').slice(0, 16)
  const folder = join(dataDir, 'python', digest)
  const inside = process.platform === 'win32' ? join('Scripts', 'python.exe') : join('bin', 'python')
  return { folder, interpreter: join(folder, inside), inside }
}

async function makeEnvironment(
  { environment, say }: Pick<SourceSetup, 'environment' | 'say'>,
  { requirements }: PythonNeeds,
  { folder, inside }: ReturnType<typeof ownInterpreter>,
): Promise<void> {
  const inherits = { environment, needs: 'everything' as const, timeoutMs: INSTALL_MS }
  say(`installing ${requirements.join(', ')} into ${folder}`)
  await mkdir(join(folder, '..'), { recursive: true })
  // one that was half made is no environment
  await rm(folder, { recursive: true, force: true })
  const run = async (command: string, args: readonly string[]): Promise<void> => {
    await readProgram(command, args, inherits)
  }
  try {
    const hasUv = await run('uv', ['--version']).then(
      () => true,
      () => false,
    )
    if (hasUv) {
      await run('uv', ['venv', '--quiet', folder])
      await run('uv', ['pip', 'install', '--quiet', '--python', join(folder, inside), ...requirements])
    } else {
      await run('python3', ['-m', 'venv', folder])
      await run(join(folder, inside), [
        '-m',
        'pip',
        'install',
        '--quiet',
        '--disable-pip-version-check',
        ...requirements,
      ])
    }
  } catch (error) {
    await rm(folder, { recursive: true, force: true })
    throw new EnvironmentFailure(
      'env_crashed',
      `${requirements.join(', ')} could not be installed: ${lastLine(error)}`,
      {
        isStart: true,
        cause: error,
        hint: 'install it into an environment of your own and give --python its interpreter',
      },
    )
  }
}

function lastLine(error: unknown): string {
  const said =
    error instanceof Error && 'stderr' in error && typeof error.stderr === 'string' ? error.stderr : String(error)
  return said.trim().split('\n').at(-1) ?? ''
}

function missing(message: string, { requirements }: PythonNeeds): InvalidRequestError {
  return new InvalidRequestError('python_package_missing', message, {
    param: '--python',
    hint: `add --install, which fetches ${requirements.join(', ')} into the data folder, or give --python an interpreter that has it`,
  })
}
