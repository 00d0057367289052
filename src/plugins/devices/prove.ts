/**
 * Whether a device computes what the CPU does: step, score and train graphs of a small model, every output of both compared.
 *
 * Wrong numbers come without an error on some drivers, so a device is trusted for what it computed and not for its name.
 */
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Accelerator, DeviceProof, GraphProof } from '#contract/processes/device-proof.js'
import { createOrtRuntime } from '#numerics/runtime/ort-runtime.js'
import type { Runtime, SessionOptions } from '#numerics/runtime/runtime.js'
import { DEVICE_TOLERANCE } from './prove-device.js'
import { openSmallModel, type Results, type SmallModel } from './small-graphs.js'

const GRAPHS = ['step', 'score', 'train'] as const

/**
 * Tries a device in this process, which may not survive it.
 *
 * @param onProgress is called after each graph
 * @throws {RuntimeError} if the runtime cannot be loaded, or the device not be had
 */
export async function prove(device: Accelerator, onProgress: () => void): Promise<DeviceProof> {
  const cpu = createOrtRuntime()
  const accelerator = createOrtRuntime({ device })
  const model = await openSmallModel()
  const traces = await mkdtemp(join(tmpdir(), 'trainyard-traces-'))
  const graphs: GraphProof[] = []
  try {
    for (const graph of GRAPHS) {
      graphs.push(await compare(graph, model, { cpu, accelerator, prefix: join(traces, graph) }))
      onProgress()
    }
  } finally {
    await model.close()
    await rm(traces, { recursive: true, force: true, maxRetries: 20 })
  }
  const worst = graphs.find(({ error }) => !(error <= DEVICE_TOLERANCE))
  const problem =
    worst === undefined
      ? null
      : `${device} gives wrong numbers here: "${worst.output}" of the ${worst.graph} graph is off by ${worst.error.toExponential(1)} of its largest number, where ${DEVICE_TOLERANCE} is let pass`
  return { device, isTrusted: worst === undefined, problem, graphs, runtime: cpu.name }
}

interface Runtimes {
  readonly cpu: Runtime
  readonly accelerator: Runtime
  /** Where the accelerator's trace of this graph is written to. */
  readonly prefix: string
}

async function compare(
  graph: GraphProof['graph'],
  model: SmallModel,
  { cpu, accelerator, prefix }: Runtimes,
): Promise<GraphProof> {
  const expected = await model[graph](cpu)
  const actual = await model[graph](accelerator)
  // once more and traced: a trace takes time of its own
  await model[graph](tracing(accelerator, prefix))
  const [output, error] = worstOf(actual.results, expected.results)
  const placement = await placementIn(prefix)
  return { graph, output, error, ...placement, deviceMs: actual.bestMs, cpuMs: expected.bestMs }
}

/** The same runtime, each of whose sessions leaves a trace: their names have no more than the time, which several may share. */
export function tracing(runtime: Runtime, prefix: string): Runtime {
  let count = 0
  const traced = (options: SessionOptions = {}): SessionOptions => {
    count += 1
    return { ...options, profilePrefix: `${prefix}-${count}` }
  }
  return {
    ...runtime,
    loadSession: (model, options) => runtime.loadSession(model, traced(options)),
    loadResident: (model, options) => runtime.loadResident(model, traced(options)),
  }
}

/** The output that differs most, in parts of its largest number. What is missing or not a number differs without bound. */
export function worstOf(actual: Results, expected: Results): readonly [output: string, error: number] {
  let worst: readonly [string, number] = ['', 0]
  for (const [name, numbers] of expected) {
    const error = differenceOf(actual.get(name), numbers)
    if (worst[0] === '' || error > worst[1]) worst = [name, error]
  }
  return worst
}

function differenceOf(actual: Float32Array | undefined, expected: Float32Array): number {
  if (actual === undefined || actual.length !== expected.length) return Number.POSITIVE_INFINITY
  let largest = 0
  let difference = 0
  for (const [i, number] of expected.entries()) {
    largest = Math.max(largest, Math.abs(number))
    const off = Math.abs((actual[i] ?? Number.NaN) - number)
    if (Number.isNaN(off)) return Number.POSITIVE_INFINITY
    difference = Math.max(difference, off)
  }
  if (difference === 0) return 0
  return largest === 0 ? Number.POSITIVE_INFINITY : difference / largest
}

/** Which nodes ran where, by the traces of that prefix: each run of a node counts. */
export async function placementIn(prefix: string): Promise<Pick<GraphProof, 'nodesOnCpu' | 'nodesOnDevice'>> {
  const nodesOnCpu: Record<string, number> = {}
  let nodesOnDevice = 0
  const folder = join(prefix, '..')
  for (const name of await readdir(folder)) {
    if (!join(folder, name).startsWith(prefix)) continue
    for (const { cat, args } of JSON.parse(await readFile(join(folder, name), 'utf8')) as readonly TraceEvent[]) {
      if (cat !== 'Node' || args?.provider === undefined) continue
      const operator = args.op_name ?? 'unknown'
      if (args.provider === 'CPUExecutionProvider') nodesOnCpu[operator] = (nodesOnCpu[operator] ?? 0) + 1
      else nodesOnDevice += 1
    }
  }
  return { nodesOnCpu, nodesOnDevice }
}

interface TraceEvent {
  readonly cat?: string
  readonly args?: { readonly provider?: string; readonly op_name?: string }
}
