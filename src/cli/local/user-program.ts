/**
 * Runs a command of the user's own, as a shell would: text in, text out, a time limit; when interrupted it is ended with all
 * processes it started. Also opens the user's browser.
 */
import type { ChildProcess } from 'node:child_process'
import { type Environment, readEnvironment } from '#base/environment.js'
import { spawnPiped, spawnProcess } from '#base/processes/start-process.js'

/**
 * Returns what the command prints on standard output.
 *
 * @throws {Error} when it fails, with the last line it printed on standard error; when it takes too long
 */
export async function runProgram(
  command: string,
  input: string,
  options: { readonly timeoutMs: number; readonly signal: AbortSignal },
): Promise<string> {
  return await new Promise<string>((resolve, reject) => {
    // a group of its own: the shell's death alone would leave what it started
    const child = spawnPiped(command, [], {
      inherits: { environment: readEnvironment(), needs: 'everything' },
      shell: true,
      detached: process.platform !== 'win32',
    })
    let [output, errors] = ['', '']
    const timer = setTimeout(
      () => stop(new Error(`${command}: no result after ${options.timeoutMs / 1000} s`)),
      options.timeoutMs,
    )
    const interrupt = () => stop(options.signal.reason)
    options.signal.addEventListener('abort', interrupt, { once: true })
    function stop(reason: unknown): void {
      endTree(child)
      reject(reason)
    }
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      output += text
    })
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      errors = (errors + text).slice(-2000)
    })
    child.stdin.on('error', () => undefined)
    child.once('error', reject)
    child.once('close', (code) => {
      clearTimeout(timer)
      options.signal.removeEventListener('abort', interrupt)
      if (code === 0) return resolve(output)
      reject(new Error(`${command}: ended with ${code}: ${errors.trim().split('\n').at(-1) ?? ''}`))
    })
    child.stdin.end(input)
  })
}

/**
 * Runs a program in its folder with what it prints in view.
 *
 * @param options.isQuiet whether standard output is the command's own: then all is printed on standard error
 * @returns its exit code; null where a signal ended it
 */
export async function runInFolder(
  folder: string,
  file: string,
  {
    environment,
    signal,
    isQuiet,
  }: { readonly environment: Environment; readonly signal: AbortSignal; readonly isQuiet: boolean },
): Promise<number | null> {
  return await new Promise<number | null>((resolve, reject) => {
    const child = spawnProcess(process.execPath, [file], {
      cwd: folder,
      inherits: { environment, needs: 'everything' },
      stdio: ['ignore', isQuiet ? process.stderr : 'inherit', 'inherit'],
    })
    const stop = (): void => {
      child.kill()
    }
    signal.addEventListener('abort', stop, { once: true })
    child.once('error', reject)
    child.once('close', (code) => {
      signal.removeEventListener('abort', stop)
      resolve(code)
    })
  })
}

/** Ends a program and all that it started. */
export function endTree(child: Pick<ChildProcess, 'pid' | 'kill'>, platform: NodeJS.Platform = process.platform): void {
  if (child.pid === undefined) return
  if (platform === 'win32') {
    // there are no groups; the system's own tool walks the tree
    const inherits = { environment: readEnvironment() }
    const killer = spawnProcess('taskkill', ['/pid', String(child.pid), '/t', '/f'], { inherits, stdio: 'ignore' })
    killer.once('error', () => child.kill('SIGKILL'))
    return
  }
  try {
    process.kill(-child.pid, 'SIGKILL')
  } catch {
    // it has ended already
  }
}

/**
 * Shows an address in the person's own browser.
 *
 * @returns whether a program took it; none does on a machine without a desktop
 */
export async function openInBrowser(url: string, environment: Environment): Promise<boolean> {
  const hasDesktop =
    process.platform !== 'linux' || (environment['DISPLAY'] ?? environment['WAYLAND_DISPLAY'] ?? '') !== ''
  if (!hasDesktop) return false
  // `explorer` takes an address as it is; `start` would have a shell read it
  const program = process.platform === 'darwin' ? 'open' : process.platform === 'win32' ? 'explorer' : 'xdg-open'
  return await new Promise<boolean>((resolve) => {
    const child = spawnProcess(program, [url], {
      inherits: { environment, needs: 'everything' },
      stdio: 'ignore',
      detached: true,
    })
    child.once('error', () => resolve(false))
    child.once('spawn', () => {
      child.unref()
      resolve(true)
    })
  })
}
