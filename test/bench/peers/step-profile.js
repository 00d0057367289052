/**
 * Where a decode step's time goes, by ONNX Runtime's own trace: what each kind of node takes, how many there are, and what lies
 * between them. The trace makes nodes slower (about a microsecond each), so its sum is larger than a step without it.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { createOrtRuntime } from '../../../dist/src/numerics/runtime/ort-runtime.js'
import { benchAdapter, loadOurs, promptOf } from './ours.js'

const STEPS = 24
/** Kinds of nodes that are shown; the rest is one row. */
const SHOWN = 9

/** Rows for the table: `streams` streams, each with an adapter of its own if `hasAdapters`. */
export async function profileDecode(model, precision, { streams, hasAdapters = false, threads = 2 }) {
  const directory = mkdtempSync(path.join(os.tmpdir(), 'trainyard-profile-'))
  try {
    const traced = tracedRuntime(path.join(directory, 'trace'))
    const engine = await loadOurs(model, precision, {
      sequences: streams,
      speculation: 'off',
      threads,
      runtime: traced.runtime,
    })
    traced.isOn = false
    const answers = Array.from({ length: streams }, (_, i) => ({
      prompt: promptOf(16, i).map((id) => id % engine.config.vocabularySize),
      options: hasAdapters ? { adapter: benchAdapter(engine.config, i + 1) } : {},
    }))
    await Promise.all(answers.map(({ prompt, options }) => engine.generate(prompt, STEPS, options)))
    await engine.dispose()
    const name = `${path.basename(model).split('-', 1)[0]}, ${streams} streams${hasAdapters ? ', each with an adapter' : ''}`
    return rowsOf(name, stepsOf(readTrace(directory)))
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
}

/** Every session made while `isOn` writes a trace when it is released. */
function tracedRuntime(profilePrefix) {
  const runtime = createOrtRuntime()
  const traced = {
    isOn: true,
    runtime: {
      ...runtime,
      loadSession: (model, options) =>
        runtime.loadSession(model, traced.isOn ? { ...options, profilePrefix } : options),
    },
  }
  return traced
}

/** The largest trace is the step graph's; calibration and probes have sessions of their own. */
function readTrace(directory) {
  const texts = readdirSync(directory).map((file) => readFileSync(path.join(directory, file), 'utf8'))
  const longest = texts.reduce((best, text) => (text.length > best.length ? text : best), '')
  return JSON.parse(longest)
}

/** The runs of the second half, which are decode steps of all streams, each with its nodes. */
function stepsOf(events) {
  const runs = events.filter(({ name }) => name === 'model_run')
  const steps = runs.slice(-Math.floor(STEPS / 2))
  // a branch holds the nodes of its body, which are listed too
  const nodes = events.filter(
    ({ cat, name, args }) => cat === 'Node' && /kernel_time/.test(name) && args.op_name !== 'If',
  )
  return steps.map(({ ts, dur }) => ({ dur, nodes: nodes.filter((node) => node.ts >= ts && node.ts < ts + dur) }))
}

function rowsOf(name, steps) {
  const kinds = new Map()
  for (const { nodes } of steps) {
    for (const { dur, args } of nodes) {
      const kind = kinds.get(args.op_name) ?? { us: 0, count: 0 }
      kind.us += dur / steps.length
      kind.count += 1 / steps.length
      kinds.set(args.op_name, kind)
    }
  }
  const sorted = [...kinds].sort(([, a], [, b]) => b.us - a.us)
  const whole = steps.reduce((sum, { dur }) => sum + dur, 0) / steps.length
  const inNodes = sorted.reduce((sum, [, { us }]) => sum + us, 0)
  const count = sorted.reduce((sum, [, kind]) => sum + kind.count, 0)
  const ms = (us) => ({ value: us / 1000, unit: 'ms' })
  const rest = sorted.slice(SHOWN)
  return [
    { name: `${name}: a step, traced`, ...ms(whole) },
    ...sorted.slice(0, SHOWN).map(([kind, { us, count: n }]) => ({ name: `  ${Math.round(n)} ${kind}`, ...ms(us) })),
    {
      name: `  ${Math.round(rest.reduce((sum, [, { count: n }]) => sum + n, 0))} others`,
      ...ms(rest.reduce((sum, [, { us }]) => sum + us, 0)),
    },
    { name: `  between its ${Math.round(count)} nodes`, ...ms(whole - inNodes) },
  ]
}
