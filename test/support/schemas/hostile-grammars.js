/**
 * Hostile grammars against a started server: each is refused or bounded, other requests are answered meanwhile, and memory stays
 * within what one grammar may have. Needs the build.
 *
 *     node test/support/schemas/hostile-grammars.js        200 of them, a few minutes
 *     node test/support/schemas/hostile-grammars.js 31     one of each kind
 *
 * Told to end (SIGTERM), it counts what it has.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { createRng } from '../../../dist/src/base/util/rng.js'
import { startService } from '../service/service-process.js'
import { hostileSpecs } from './random-schemas.js'

const wanted = Number(process.argv[2] ?? 200)
const MODEL = 'trainyard/spark'

/** A grammar as the field of a request that asks for it. */
function toStructuredOutputs(spec) {
  if (spec.kind === 'json_schema') return { json: spec.schema }
  if (spec.kind === 'regex') return { regex: spec.pattern }
  if (spec.kind === 'choice') return { choice: spec.choices }
  if (spec.kind === 'ebnf') return { grammar: spec.grammar }
  return { structural_tag: spec.tag }
}

function statusOf(pid, name) {
  const line = readFileSync(`/proc/${pid}/status`, 'utf8').match(new RegExp(`^${name}:\\s+(\\d+)`, 'm'))
  return line === null ? null : Number(line[1])
}

/** The engine host of a server: its only child. */
function childOf(pid) {
  return Number(readdirSync('/proc').find((name) => /^\d+$/.test(name) && parentOf(name) === pid))
}

function parentOf(pid) {
  try {
    return statusOf(pid, 'PPid')
  } catch {
    return null
  }
}

/** Processor time that a process has used, in ms. */
function cpuMsOf(pid) {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  // the second field, in brackets, may hold spaces; user and system time are the 14th and 15th, in ticks of 10 ms
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return (Number(fields[11]) + Number(fields[12])) * 10
}

function quantile(values, part) {
  return [...values].sort((a, b) => a - b)[Math.floor((values.length - 1) * part)]
}

const service = await startService({ args: ['--base-model', MODEL] })
async function ask(more) {
  const startedMs = performance.now()
  const response = await fetch(`${service.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${service.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: MODEL, messages: [{ role: 'user', content: 'hi' }], max_tokens: 8, ...more }),
  })
  return { status: response.status, body: await response.json(), ms: performance.now() - startedMs }
}

try {
  for (let i = 0; i < 5; i++) await ask({ seed: i })
  const engine = childOf(service.child.pid)
  const processes = [service.child.pid, engine].map((pid) => {
    const before = statusOf(pid, 'VmRSS')
    return { pid, before, most: before }
  })
  const watch = setInterval(() => {
    for (const process of processes) process.most = Math.max(process.most, statusOf(process.pid, 'VmRSS'))
  }, 20)
  const besides = []
  let isOver = false
  const beside = (async () => {
    for (let seed = 0; !isOver; seed++) besides.push(await ask({ seed }))
  })()
  const rng = createRng(7n)
  const counts = { refused: 0, taken: 0, other: 0 }
  const times = []
  const costs = []
  let isEnough = false
  process.once('SIGTERM', () => {
    isEnough = true
  })
  for (const spec of hostileSpecs(() => rng.uniform(), wanted)) {
    if (isEnough) break
    const startedCpuMs = cpuMsOf(engine)
    const { status, body, ms } = await ask({ structured_outputs: toStructuredOutputs(spec), seed: 1 })
    times.push(ms)
    const text = JSON.stringify(spec)
    costs.push({
      cpuMs: cpuMsOf(engine) - startedCpuMs,
      status,
      text: `${text.slice(0, 80)}… (${text.length} characters)`,
    })
    if (status === 200) counts.taken++
    else if (status === 400 || status === 413) counts.refused++
    else {
      counts.other++
      console.log(`  ${status} ${body.error?.message}\n    ${JSON.stringify(spec).slice(0, 200)}`)
    }
  }
  isOver = true
  await beside
  clearInterval(watch)
  const isSameEngine = statusOf(engine, 'VmRSS') > 0
  const failed = besides.filter(({ status }) => status !== 200).length
  const gaps = besides.map(({ ms }) => ms)
  console.log(
    `${costs.length} hostile grammars: ${counts.refused} refused, ${counts.taken} answered, ${counts.other} failed otherwise`,
  )
  console.log(
    `each took ${quantile(times, 0.5).toFixed(0)} ms (median), ${quantile(times, 1).toFixed(0)} ms at most, by the clock`,
  )
  console.log(
    `${besides.length} other requests beside them, ${failed} failed: ${quantile(gaps, 0.5).toFixed(0)} ms (median), ${quantile(gaps, 0.99).toFixed(0)} (99 of 100), ${quantile(gaps, 1).toFixed(0)} at most`,
  )
  console.log(
    `processor time of the engine for each, with the other requests meanwhile: ${quantile(
      costs.map(({ cpuMs }) => cpuMs),
      0.5,
    ).toFixed(0)} ms (median); most:`,
  )
  costs.sort((a, b) => b.cpuMs - a.cpuMs)
  for (const { cpuMs, status, text } of costs.slice(0, 5)) console.log(`  ${cpuMs} ms, ${status}: ${text}`)
  const mebibytes = (kibibytes) => (kibibytes / 1024).toFixed(0)
  for (const [i, name] of ['server', 'engine'].entries()) {
    const { pid, before, most } = processes[i]
    const now = statusOf(pid, 'VmRSS')
    console.log(
      `memory of the ${name}: ${mebibytes(before)} MiB before, ${mebibytes(most)} at most, ${mebibytes(now)} after`,
    )
  }
  console.log(`the same engine process: ${isSameEngine}`)
  if (counts.other + failed > 0) process.exitCode = 1
} finally {
  await service.stop()
}
