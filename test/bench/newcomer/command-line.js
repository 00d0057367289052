/**
 * The way of a newcomer by the command line: a server of this checkout, and each step as a command with its defaults.
 */
import { execFile, spawn } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'

const BIN = path.resolve(import.meta.dirname, '../../../bin/trainyard.js')
const run = promisify(execFile)
const lines = (rows) => rows.map((row) => `${JSON.stringify(row)}\n`).join('')

/** @param options.url a server that is there; without it one is started, and ended by `close` */
export async function openCommandLine({ url, smollm }) {
  const folder = await mkdtemp(path.join(tmpdir(), 'newcomer-'))
  const service = url === undefined ? await serve(folder) : { env: { ...process.env, TRAINYARD_URL: url } }
  const trainyard = async (...args) =>
    await run(process.execPath, [BIN, ...args], { cwd: folder, env: service.env, maxBuffer: 2 ** 28 })
  /** What a command says beside its result. */
  const warningsOf = ({ stderr }) => stderr.split('\n').flatMap((line) => /^warning: (.*)/.exec(line)?.[1] ?? [])
  const rewardOf = async (task) => {
    if (task.reward === 'exact') return []
    await writeFile(path.join(folder, 'reward.mjs'), task.reward)
    return ['--reward', './reward.mjs']
  }
  if (smollm !== undefined) {
    await trainyard('base-models', 'add', path.resolve(smollm.file), '--name', smollm.name)
  }
  return {
    async create(name, { baseModel }) {
      await trainyard('models', 'create', name, '--base-model', baseModel)
      return name
    },
    async measure(model, task, seed) {
      await writeFile(path.join(folder, 'held-out.jsonl'), lines(task.heldOut))
      const asked = ['--prompts', 'held-out.jsonl', '-n', '4', '--max-tokens', String(task.maxTokens)]
      const reward = await rewardOf(task)
      const result = await trainyard('eval', model, ...asked, ...reward, '--seed', String(seed), '--json')
      const { reward: mean, verdict } = JSON.parse(result.stdout)
      return { reward: mean, said: [`${verdict.says}; ${verdict.command}`, ...warningsOf(result)] }
    },
    async show(model, examples, seed) {
      await writeFile(path.join(folder, 'examples.jsonl'), lines(examples))
      const seeded = ['--set', `seed=${seed}`]
      return warningsOf(await trainyard('train', 'sft', model, '--file', 'examples.jsonl', ...seeded, '--watch'))
    },
    async reward(model, task, { prompts, seed, job }) {
      await writeFile(path.join(folder, 'prompts.jsonl'), lines(prompts))
      const asked = ['--prompts', 'prompts.jsonl', '-n', '8', '--max-tokens', String(task.maxTokens)]
      const seeded = ['--seed', String(100_000 * seed + 1000 * job), '--out', 'groups.jsonl']
      const sampled = await trainyard('rollout', model, ...asked, ...(await rewardOf(task)), ...seeded)
      const train = ['--file', 'groups.jsonl', '--set', `seed=${seed}`, '--allow-empty', '--watch']
      return [...warningsOf(sampled), ...warningsOf(await trainyard('train', 'rl', model, ...train))]
    },
    async close() {
      await service.close?.()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

async function serve(folder) {
  const port = String(8000 + Math.floor(Math.random() * 1000))
  const env = { ...process.env, TRAINYARD_URL: `http://127.0.0.1:${port}`, XDG_STATE_HOME: path.join(folder, 'state') }
  const args = [BIN, 'serve', '--port', port, '--data-dir', path.join(folder, 'data')]
  const child = spawn(process.execPath, args, { env, stdio: 'ignore' })
  const isReady = async () => {
    if (child.exitCode !== null) throw new Error(`the server ended with ${child.exitCode}`)
    return await run(process.execPath, [BIN, 'system-check', '--server-only'], { env }).then(
      () => true,
      () => false,
    )
  }
  while (!(await isReady())) await new Promise((resolve) => setTimeout(resolve, 500))
  return {
    env,
    async close() {
      const ended = new Promise((resolve) => child.once('exit', resolve))
      child.kill()
      await ended
    },
  }
}
