/**
 * What Trainyard adds to vLLM: the same requests through our server, its engine host and an engine node, and straight to the `vllm serve` that the node
 * owns, by turns in one run.
 *
 *     npm run bench -- vllm-node                     five turns
 *     npm run bench -- vllm-node --turns 9 --tokens 200
 *     npm run bench -- vllm-node --vllm /opt/vllm/bin/vllm --model qwen=/models/qwen --args '--gpu-memory-utilization 0.9'
 *
 * Both ask `POST /v1/completions` for a stream. On a machine whose cores all of them share, ours cannot be free: what counts there is the processor
 * time of our three processes for each token, which is told beside the clock.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { Agent, request } from 'node:http'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { startService } from '../support/service/service-process.js'
import { quantile } from './support/http-load.js'
import { median } from './support/median.js'
import { childrenOf, processorTimes } from './support/processes.js'

export const title = 'vLLM through an engine node, beside vLLM alone'

const ROOT = join(import.meta.dirname, '../..')
const STREAMS = 16
/** One after the other, to the first token of each. */
const FIRSTS = 12
/** As little of a shared machine as will do. */
const ON_PROCESSORS = { VLLM_CPU_KVCACHE_SPACE: '1', VLLM_CPU_OMP_THREADS_BIND: 'nobind', OMP_NUM_THREADS: '1' }
const PROCESSOR_ARGS = '--dtype float32 --enforce-eager'

export async function run(options) {
  const vllm = options.vllm ?? join(ROOT, '.cache/vllm-venv/bin/vllm')
  if (!existsSync(vllm)) return 'no vLLM: CI_HEAVY=1 .ci/run installs a build for processors, or name one with --vllm'
  const [turns, tokens] = [Number(options.turns ?? 5), Number(options.tokens ?? 100)]
  const model = options.model ?? 'trainyard/spark'
  const service = await startService({ args: ['--base-model', model, '--engines', 'remote'] })
  const directory = await mkdtemp(join(tmpdir(), 'trainyard-bench-'))
  let node = null
  try {
    const base = model.split('=')[0]
    node = await startNode(service, { vllm, base, directory, args: options.args ?? PROCESSOR_ARGS })
    const places = {
      ours: { url: service.url, key: service.key, model: base },
      direct: await directPlace(node.pid),
    }
    return await compare(places, { turns, tokens, pids: () => ownProcesses(service.child.pid, node.pid) })
  } finally {
    node?.kill('SIGTERM')
    if (node !== null) await once(node, 'exit')
    await service.stop()
    await rm(directory, { recursive: true, force: true, maxRetries: 20 })
  }
}

async function compare(places, { turns, tokens, pids }) {
  const seen = { ours: [], direct: [] }
  // graphs, connections, the prefix of each prompt
  for (const name of ['ours', 'direct']) await measure(places[name], tokens, pids)
  for (let turn = 0; turn < turns; turn += 1) {
    const order = turn % 2 === 0 ? ['ours', 'direct'] : ['direct', 'ours']
    for (const name of order) seen[name].push(await measure(places[name], tokens, pids))
  }
  const of = (name, field) => median(seen[name].map((each) => each[field]))
  const ratio = median(seen.ours.map((each, i) => each.rate / seen.direct[i].rate))
  const added = median(seen.ours.map((each, i) => each.firstMs - seen.direct[i].firstMs))
  const free = median(
    seen.ours.map((each, i) => 1 / (1 / each.rate - each.cpuMs / 1000 / availableParallelism()) / seen.direct[i].rate),
  )
  return [
    { name: `${STREAMS} streams of ${tokens} tokens, vLLM alone`, value: of('direct', 'rate'), unit: 'tok/s' },
    {
      name: 'the same through our server and node',
      ...{ value: of('ours', 'rate'), unit: 'tok/s', ratio, target: 'ratio >= 0.95' },
    },
    { name: 'the first token, vLLM alone', value: of('direct', 'firstMs'), unit: 'ms' },
    { name: 'the same through our server and node', value: of('ours', 'firstMs'), unit: 'ms' },
    { name: 'added to the first token', value: added, unit: 'ms', target: '<= 3 ms' },
    { name: 'processor time of our processes for each token', value: of('ours', 'cpuMs'), unit: 'ms' },
    { name: 'processor time of our processes for each first token', value: of('ours', 'firstCpuMs'), unit: 'ms' },
    { name: 'the same streams, had ours run on cores of their own', value: free, unit: 'of vLLM alone' },
  ]
}

async function measure(place, tokens, pids) {
  const agent = new Agent({ keepAlive: true, maxSockets: STREAMS })
  const firsts = []
  const beforeFirst = cpuMs(pids())
  for (let i = 0; i < FIRSTS; i += 1) firsts.push((await stream({ ...place, agent }, i, 1)).firstMs)
  const firstCpuMs = (cpuMs(pids()) - beforeFirst) / FIRSTS
  const before = cpuMs(pids())
  const startedMs = performance.now()
  await Promise.all(Array.from({ length: STREAMS }, (_, i) => stream({ ...place, agent }, i, tokens)))
  const seconds = (performance.now() - startedMs) / 1000
  const cpu = cpuMs(pids()) - before
  agent.destroy()
  const count = STREAMS * tokens
  return { rate: count / seconds, firstMs: quantile(firsts, 0.5), cpuMs: cpu / count, firstCpuMs }
}

/** One stream to its end. @returns when its first event came, and how many came */
function stream({ url, key, model, agent }, seed, tokens) {
  const body = JSON.stringify({
    model,
    prompt: `Once upon a time there were ${seed} cats and ${seed} dogs`,
    ...{ max_tokens: tokens, ignore_eos: true, temperature: 0, stream: true },
    stream_options: { include_usage: true },
  })
  const headers = { 'content-type': 'application/json', authorization: `Bearer ${key}` }
  return new Promise((resolve, reject) => {
    const startedMs = performance.now()
    const sent = request(new URL('/v1/completions', url), { method: 'POST', agent, headers }, (response) => {
      let firstMs = null
      let text = ''
      response.setEncoding('utf8').on('data', (part) => {
        text += part
        if (firstMs === null && text.includes('"choices":[{')) firstMs = performance.now() - startedMs
      })
      response.on('end', () => {
        const made = Number(/"completion_tokens":(\d+)/.exec(text)?.[1])
        if (made === tokens) resolve({ firstMs })
        else reject(new Error(`${url} gave ${made} of ${tokens} tokens: ${text.slice(-500)}`))
      })
    })
    sent.on('error', reject)
    sent.end(body)
  })
}

async function startNode({ url, api }, { vllm, base, directory, args }) {
  const { key } = await api.call('POST', '/v1/preview/keys', { scope: 'worker' })
  const own = [
    'engine-node',
    '--json',
    '--base-model',
    base,
    '--cache-dir',
    directory,
    '--max-sequences',
    String(STREAMS),
  ]
  const flags = [...own, '--engine', 'vllm', '--vllm', vllm, '--', ...args.split(' ').filter(Boolean)]
  const child = spawn(process.execPath, [join(ROOT, 'bin/trainyard.js'), ...flags], {
    env: { ...process.env, ...ON_PROCESSORS, HOME: directory, TRAINYARD_API_KEY: key, TRAINYARD_URL: url },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let said = ''
  child.stderr.on('data', (text) => {
    said = (said + text).slice(-3000)
  })
  const ready = new Promise((resolve, reject) => {
    createInterface({ input: child.stdout }).on('line', (line) => JSON.parse(line).type === 'ready' && resolve())
    child.once('exit', (code) => reject(new Error(`engine-node ended with ${code}: ${said}`)))
  })
  await ready
  return child
}

/** The node's vLLM. Its requests without an adapter name the one that changes nothing, where the node has given it one. */
async function directPlace(pid) {
  for (const process of descendants(pid)) {
    const args = readFileSync(`/proc/${process}/cmdline`, 'utf8').split('\0')
    if (!args.includes('--served-model-name')) continue
    const url = `http://127.0.0.1:${args[args.indexOf('--port') + 1]}`
    const { data } = await (await fetch(`${url}/v1/models`)).json()
    const ids = data.map(({ id }) => id)
    return { url, key: '', model: ids.find((id) => id === 'no-change') ?? ids[0] }
  }
  throw new Error('the engine node has no vLLM')
}

const descendants = (pid) => childrenOf(pid).flatMap((child) => [child, ...descendants(child)])

/** Server, engine host, node: not vLLM, whose processes are those of the group's leader. */
function ownProcesses(serverPid, nodePid) {
  return [serverPid, ...descendants(serverPid), nodePid, ...childrenOf(nodePid)]
}

/** Processor time so far, milliseconds. */
const cpuMs = (pids) => pids.reduce((sum, pid) => sum + 1000 * processorTimes(pid).own, 0)
