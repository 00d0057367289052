/**
 * Does it learn on a task of one's own? Tasks of `tasks.js` × seeds, each on a fresh model, by the command line alone, in the way that the
 * product itself advises, on its defaults:
 *
 *     npm run build && node test/bench/newcomer/run.js [--tasks labels,json] [--seeds 1,2,3] [--minutes 10] [--url URL] [--out FILE]
 *         [--smollm FILE.gguf] [--until 0.95]
 *
 * The way: `trainyard eval`; where it says that no reward is above 0, `trainyard train sft` on right answers as it advises; then
 * `trainyard rollout | trainyard train rl`, as it advises, until the held-out reward is high, or the time is over. The seed is that of sampling
 * (`--seed`) and of the jobs. Prints a line per run as JSON: the held-out reward after each job, minutes, and what the product said.
 */
import { execFile, spawn } from 'node:child_process'
import { appendFile, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { parseArgs, promisify } from 'node:util'
import { TASKS } from './tasks.js'

const { values } = parseArgs({
  options: {
    tasks: { type: 'string', default: Object.keys(TASKS).join(',') },
    seeds: { type: 'string', default: '1,2,3' },
    minutes: { type: 'string', default: '10' },
    until: { type: 'string', default: '0.95' },
    url: { type: 'string' },
    smollm: { type: 'string', default: '.cache/models/SmolLM2-135M-Instruct.Q4_1.gguf' },
    out: { type: 'string' },
  },
})
const BIN = path.resolve(import.meta.dirname, '../../../bin/trainyard.js')
const PROMPTS_PER_JOB = 16
const run = promisify(execFile)

/** @returns standard output and error of a command; its failure is an error with both */
async function trainyard(folder, args, env) {
  return await run(process.execPath, [BIN, ...args], { cwd: folder, env, maxBuffer: 2 ** 28 })
}

/** The rows of a file in an order by seed and job, so many. */
function draw(rows, count, seed) {
  const keyed = rows.map((row, i) => ({ row, key: Math.sin((i + 1) * 12.9898 + seed * 78.233) * 43758.5453 }))
  const fraction = (value) => value - Math.floor(value)
  return keyed
    .toSorted((a, b) => fraction(a.key) - fraction(b.key))
    .slice(0, count)
    .map(({ row }) => row)
}

const lines = (rows) => rows.map((row) => `${JSON.stringify(row)}\n`).join('')

async function oneRun(name, seed, env) {
  const task = TASKS[name]
  const folder = await mkdtemp(path.join(tmpdir(), `newcomer-${name}-`))
  const model = `${name}-${seed}-${process.pid}`
  const reward = task.reward === 'exact' ? [] : ['--reward', './reward.mjs']
  const begin = performance.now()
  const minutes = () => (performance.now() - begin) / 60_000
  const [curve, said] = [[], []]
  const listen = ({ stderr }) => {
    for (const line of stderr.split('\n')) if (line.startsWith('warning: ')) said.push(line.slice(9))
  }
  const measure = async () => {
    const flags = ['--prompts', 'held-out.jsonl', '-n', '4', ...reward, '--max-tokens', String(task.maxTokens)]
    const result = await trainyard(folder, ['eval', model, ...flags, '--seed', String(seed), '--json'], env)
    listen(result)
    curve.push(JSON.parse(result.stdout).reward)
    process.stderr.write(
      `${name} seed ${seed}: ${curve.map((each) => each.toFixed(2)).join(' ')} (${minutes().toFixed(1)} min)\n`,
    )
  }
  const jobs = []
  try {
    await writeFile(path.join(folder, 'held-out.jsonl'), lines(task.heldOut))
    if (task.reward !== 'exact') await writeFile(path.join(folder, 'reward.mjs'), task.reward)
    await trainyard(folder, ['models', 'create', model, '--base-model', task.baseModel], env)
    await measure()
    if (said.some((each) => each.startsWith('reward 0 everywhere'))) {
      const examples = draw(task.training, task.examples, seed).map(({ prompt, answer }) => ({
        messages: [
          { role: 'user', content: prompt },
          { role: 'assistant', content: answer },
        ],
      }))
      await writeFile(path.join(folder, 'examples.jsonl'), lines(examples))
      listen(
        await trainyard(
          folder,
          ['train', 'sft', model, '--file', 'examples.jsonl', '--set', `seed=${seed}`, '--watch'],
          env,
        ),
      )
      jobs.push('sft')
      await measure()
    }
    for (let job = 1; curve.at(-1) < Number(values.until) && minutes() < Number(values.minutes); job += 1) {
      const prompts = draw(task.training, PROMPTS_PER_JOB, 1000 * seed + job)
      await writeFile(path.join(folder, 'prompts.jsonl'), lines(prompts))
      const sampled = ['--max-tokens', String(task.maxTokens), '--seed', String(100_000 * seed + 1000 * job)]
      const files = ['--prompts', 'prompts.jsonl', '-n', '8', ...reward, '--out', 'groups.jsonl']
      listen(await trainyard(folder, ['rollout', model, ...files, ...sampled], env))
      const train = [
        'train',
        'rl',
        model,
        '--file',
        'groups.jsonl',
        '--set',
        `seed=${seed}`,
        '--allow-empty',
        '--watch',
      ]
      listen(await trainyard(folder, train, env))
      jobs.push('rl')
      await measure()
    }
    return { task: name, seed, curve, jobs, minutes: Number(minutes().toFixed(2)), said: [...new Set(said.map(short))] }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** What was said, without its figures. */
function short(text) {
  return text.replaceAll(/\d[\d.e+-]*/g, '#').slice(0, 120)
}

/** A server of this checkout with both base models. */
async function serve() {
  const folder = await mkdtemp(path.join(tmpdir(), 'newcomer-'))
  const port = String(8000 + Math.floor(Math.random() * 1000))
  const env = { ...process.env, TRAINYARD_URL: `http://127.0.0.1:${port}`, XDG_STATE_HOME: path.join(folder, 'state') }
  const child = spawn(process.execPath, [BIN, 'serve', '--port', port, '--data-dir', path.join(folder, 'data')], {
    env,
    stdio: 'ignore',
  })
  const ready = async () => {
    await trainyard(folder, ['system-check', '--server-only'], env).catch(async () => {
      await new Promise((resolve) => setTimeout(resolve, 500))
      await ready()
    })
  }
  await ready()
  return {
    env,
    close: async () => {
      child.kill()
      await new Promise((resolve) => child.once('exit', resolve))
      await rm(folder, { recursive: true, force: true })
    },
  }
}

const names = values.tasks.split(',')
const service =
  values.url === undefined
    ? await serve()
    : { env: { ...process.env, TRAINYARD_URL: values.url }, close: async () => {} }
try {
  if (names.some((name) => TASKS[name].baseModel.startsWith('SmolLM2'))) {
    const args = ['base-models', 'add', path.resolve(values.smollm), '--name', 'SmolLM2-135M-Instruct']
    await trainyard('.', args, service.env)
  }
  for (const name of names) {
    for (const seed of values.seeds.split(',').map(Number)) {
      const line = JSON.stringify(await oneRun(name, seed, service.env))
      console.log(line)
      if (values.out !== undefined) await appendFile(values.out, `${line}\n`)
    }
  }
} finally {
  await service.close()
}
