/**
 * What deployment trials are made with: the packed tarball laid out as an install does it, servers started from it under a wrapper
 * (another user, a namespace, a limit), commands, and folders that go with the trial. Knows no trial.
 */
import { execFile, spawn, spawnSync } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { packedPackage } from '../support/packed-package.js'
import { createApi } from '../support/service/service-process.js'

export const ROOT = path.resolve(import.meta.dirname, '../..')
const run = promisify(execFile)

/** Why a trial cannot be done here: a right or a tool that is missing. */
export class Skipped extends Error {}

/** @throws {Skipped} where the condition does not hold */
export function need(condition, why) {
  if (!condition) throw new Skipped(why)
}

/** @throws {Error} which makes the trial fail */
export function expect(condition, what) {
  if (!condition) throw new Error(what)
}

export const isRoot = process.platform === 'linux' && process.getuid?.() === 0

export function hasProgram(name) {
  return spawnSync('sh', ['-c', `command -v ${name}`], { stdio: 'ignore' }).status === 0
}

/** Root may do less in a container: tried, not guessed. */
export function mayUnshare(...flags) {
  return isRoot && spawnSync('unshare', [...flags, 'true'], { stdio: 'ignore' }).status === 0
}

/** Whether a wrapper comes as far as its program: namespaces may be had where what is done in them may not. */
export function canWrap([program, ...args]) {
  return spawnSync(program, [...args, 'true'], { stdio: 'ignore' }).status === 0
}

/** @param probe is asked until it gives a value other than null, undefined and false */
export async function until(probe, what, mostMs = 120_000) {
  const deadline = performance.now() + mostMs
  for (;;) {
    const value = await probe()
    if (value !== null && value !== undefined && value !== false) return value
    if (performance.now() > deadline) throw new Error(`timed out: ${what}`)
    await sleep(20)
  }
}

export async function freePort(host = '127.0.0.1') {
  const server = createServer()
  await new Promise((resolve, reject) => server.once('error', reject).listen(0, host, resolve))
  const { port } = server.address()
  await new Promise((resolve) => server.close(resolve))
  return port
}

/**
 * Packs this checkout and lays it out as installed.
 *
 * @param {{ tarball?: string, isWhole?: boolean }} [options] another tarball; `isWhole` installs dependencies from the registry,
 *   else they are a link to this checkout's
 * @returns the package's folder, and `remove()`
 */
export async function installPackage({ tarball, isWhole = false } = {}) {
  const folder = mkdtempSync(path.join(tmpdir(), 'trainyard-trials-'))
  // other users run it too
  chmodSync(folder, 0o755)
  const root = path.join(folder, 'node_modules/trainyard')
  const remove = () => rmSync(folder, { recursive: true, force: true, maxRetries: 20 })
  try {
    const file = tarball ?? (await packedPackage()).file
    if (isWhole) {
      await run('npm', ['install', '--no-fund', '--no-audit', '--prefix', folder, path.resolve(file)], { cwd: folder })
    } else {
      mkdirSync(root, { recursive: true })
      await run('tar', ['-xzf', file, '-C', root, '--strip-components=1'])
      symlinkSync(path.join(ROOT, 'node_modules'), path.join(root, 'node_modules'))
    }
  } catch (error) {
    remove()
    throw error
  }
  return { root, remove }
}

/** @returns whether it passed, failed or was skipped, and why it did not pass; nothing of it is left */
export async function attempt(trial, packageRoot, options = {}) {
  const kit = createKit(packageRoot, options)
  try {
    await trial.run(kit)
    return { state: 'passed' }
  } catch (error) {
    return { state: error instanceof Skipped ? 'skipped' : 'failed', why: error.message.slice(0, 2000) }
  } finally {
    await kit.end()
  }
}

/** Servers, commands and folders of one trial; `end()` stops and deletes what is left of it. */
function createKit(packageRoot, { isShort = false } = {}) {
  const ends = []
  const atEnd = (task) => ends.unshift(task)

  function folder() {
    const made = mkdtempSync(path.join(tmpdir(), 'trainyard-trial-'))
    chmodSync(made, 0o755)
    atEnd(() => rmSync(made, { recursive: true, force: true, maxRetries: 20 }))
    return made
  }

  const bin = (root) => path.join(root ?? packageRoot, 'bin/trainyard.js')

  /** A home of its own, so that no setting of who runs this counts; any user may use it. */
  const home = folder()
  chmodSync(home, 0o777)
  function environment(env = {}) {
    const all = { PATH: process.env.PATH, HOME: home, ...env }
    return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined))
  }

  /**
   * Starts `serve` and waits until it listens.
   *
   * @param {{ args?: string[], dataDir?: string, port?: number, env?: object, wrapper?: string[], root?: string, logFile?: string,
   *   isInside?: boolean, key?: string }} [options] `wrapper` runs the command; `isInside`: the server is the wrapper's child and not the wrapper
   *   itself; `logFile` takes what it says, at its end; `key` where the data directory has no file of it
   */
  async function serve({
    args = [],
    dataDir,
    port = 0,
    env,
    wrapper = [],
    root,
    logFile,
    isInside = false,
    key: known,
  } = {}) {
    const place = dataDir ?? path.join(folder(), 'data')
    const flags = ['serve', '--json', '--port', String(port), '--threads', '1', '--data-dir', place, ...args]
    const [program, ...rest] = [...wrapper, process.execPath, bin(root), ...flags]
    const stderr = logFile === undefined ? 'pipe' : openSync(logFile, 'a')
    const child = spawn(program, rest, { stdio: ['ignore', 'pipe', stderr], env: environment(env), cwd: '/' })
    let said = ''
    let log = ''
    child.stdout.on('data', (chunk) => {
      said += chunk
    })
    child.stderr?.on('data', (chunk) => {
      log += chunk
    })
    const ended = new Promise((resolve) => child.once('close', (code, signal) => resolve({ code, signal })))
    let end = null
    void ended.then((value) => {
      end = value
    })
    atEnd(async () => {
      child.kill('SIGKILL')
      await ended
    })
    const line = await until(() => {
      if (end !== null) throw new Error(`serve ended with ${end.code ?? end.signal}: ${log.slice(-1500)}`)
      return said.split('\n').length > 1 ? said.split('\n')[0] : null
    }, 'serve listens')
    const ready = JSON.parse(line)
    const key = known ?? ready.api_key ?? readFileSync(path.join(place, 'api-key'), 'utf8').trim()
    const pid = isInside ? childrenOf(child.pid)[0] : child.pid
    return {
      url: ready.url,
      key,
      pid,
      dataDir: place,
      api: createApi(ready.url, key),
      log: () => (logFile === undefined ? log : readFileSync(logFile, 'utf8')),
      ended,
      /** Asks it to stop; the code is of whoever runs it. */
      async stop(signal = 'SIGTERM') {
        process.kill(pid, signal)
        return await ended
      },
    }
  }

  /** Runs a command to its end. */
  async function command(args, { env, wrapper = [], root, input, cwd } = {}) {
    const [program, ...rest] = [...wrapper, process.execPath, bin(root), ...args]
    return await runProgram(program, rest, { env: environment(env), input, cwd })
  }

  return {
    packageRoot,
    isShort,
    folder,
    serve,
    command,
    atEnd,
    async end() {
      for (const task of ends.splice(0)) await task()
    },
  }
}

/** @returns code, standard output and error of a program, whatever its code is */
export function runProgram(program, args, { env = process.env, input, cwd } = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { env, cwd })
    let stdout = ''
    let stderr = ''
    child.stdout.on('data', (chunk) => {
      stdout += chunk
    })
    child.stderr.on('data', (chunk) => {
      stderr += chunk
    })
    child.stdin.on('error', () => {})
    child.stdin.end(input ?? '')
    child.once('error', reject)
    child.once('close', (code) => resolve({ code, stdout, stderr }))
  })
}

export function childrenOf(pid) {
  return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter(Boolean).map(Number)
}

const ROWS = Array.from({ length: 6 }, (_, i) => ({
  messages: [
    { role: 'user', content: `What is ${i}?` },
    { role: 'assistant', content: `It is ${i}.` },
  ],
}))

export function chat(api, model = 'trainyard/spark', more = {}) {
  return api.chat({ model, messages: [{ role: 'user', content: 'Hello' }], max_tokens: 8, seed: 1, ...more })
}

/** A job of a few rows, not waited for. @returns the model's name for chats, and the job's id */
export async function startJob(api, name = 'tried', options = {}) {
  const model = await api.createModel(name, 'trainyard/spark')
  const rows = Array.from({ length: options.times ?? 1 }, () => ROWS).flat()
  const file = await api.uploadRows(rows)
  const job = await api.call('POST', '/v1/preview/sft-training-jobs', { model_id: model.id, training_data_url: file })
  return { model: `local/demo/${name}`, modelId: model.id, jobId: job.id }
}

/** What everybody does: chat, train, chat with the result. @throws where one of them does not work */
export async function useService(server, name = 'tried') {
  expect((await chat(server.api)).choices[0].finish_reason, 'the built-in model does not answer')
  const { model, jobId } = await startJob(server.api, name)
  await server.api.waitForJob(jobId)
  const answer = await chat(server.api, model)
  expect(/:step[1-9]/.test(answer.system_fingerprint), `no new step answers: ${answer.system_fingerprint}`)
  return { model }
}

/** A file system of its own. @throws {Skipped} where this user may not mount */
export function mountSmall(kit, size, options = '') {
  const place = kit.folder()
  const mounted = isRoot && spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${size}${options}`, 'tmpfs', place])
  need(mounted?.status === 0, 'mounting a file system needs root')
  kit.atEnd(() => void spawnSync('umount', ['-l', place]))
  return place
}

export function readOperations() {
  return readFileSync(path.join(ROOT, 'src/docs/reference/operations.md'), 'utf8')
}
