/**
 * `trainyard devices`: what this machine could compute on, which files are missing for it, and whether it computes right.
 */
import type { Environment } from '#base/environment.js'
import { listCards } from '#base/processes/graphics-cards.js'
import { maxOf } from '#base/util/lists.js'
import { defineCommand } from '#cli/command/define-command.js'
import { flag } from '#cli/command/flags.js'
import { formatBytes } from '#cli/terminal/format.js'
import { type DeviceProof, placementOf, speedupOf } from '#contract/processes/device-proof.js'
import { type DeviceFiles, deviceFiles, readMachine } from './device-files.js'
import { proveDevice } from './prove-device.js'

/** One device, as `--json` prints it. */
interface DeviceRow {
  readonly name: 'cpu' | DeviceFiles['name']
  /** `ready`: it needs no proof; `possible`: nothing is missing that can be seen; `proven` and `refused` with --try. */
  readonly status: 'ready' | 'possible' | 'missing' | 'unsupported' | 'proven' | 'refused'
  readonly message: string
  readonly files: DeviceFiles['files']
  readonly steps: readonly string[]
  readonly proof: DeviceProof | null
}

export const devices = defineCommand({
  path: ['devices'],
  summary: 'List what this machine can compute on',
  details:
    'Looks for graphics cards and for the files that WebGPU and CUDA need, and prints what to type for those that are missing; nothing is downloaded or changed. With --try each device that can be had computes small step, score and train graphs in a process of its own, compared with the CPU as serve --device does at its start.',
  examples: [
    ['trainyard devices', 'what is there, what is missing'],
    ['trainyard devices --try --json', 'whether devices compute right, with errors and times of each graph'],
  ],
  args: {},
  flags: { try: flag.switch('--try', 'compute on each device that can be had; may take minutes in software') },
  async run({ output, environment, flags }) {
    const cards = await listCards()
    const rows: DeviceRow[] = [
      { name: 'cpu', status: 'ready', message: 'the default', files: [], steps: [], proof: null },
    ]
    for (const found of await deviceFiles(await readMachine(environment))) {
      rows.push(await rowOf(found, flags.try ? environment : null))
    }
    output.rows(
      { cards, devices: rows },
      rows,
      [
        { header: 'device', get: (row) => row.name },
        { header: 'status', get: (row) => row.status },
        { header: 'what', get: (row) => row.message, canWrap: true },
      ],
      (row) => `${row.name} ${row.status}`,
    )
    for (const { name, driver, memoryBytes } of cards) {
      const memory = memoryBytes === null ? '' : `, ${formatBytes(memoryBytes)}`
      output.status(`card: ${name}${driver === null ? '' : `, driver ${driver}`}${memory}`)
    }
    for (const { name, files, steps } of rows) {
      for (const { file, purpose, path } of files) {
        if (path === null) output.status(`${name} lacks ${file} (${purpose})`)
      }
      for (const step of steps) output.status(`  ${step}`)
    }
  },
})

/** @param environment of the process that tries the device; null: it is not tried */
async function rowOf(found: DeviceFiles, environment: Environment | null): Promise<DeviceRow> {
  const { name, unsupported, files, steps } = found
  const base = { name, files, steps, proof: null }
  if (unsupported !== null) return { ...base, status: 'unsupported', message: unsupported }
  const missing = files.filter(({ path }) => path === null)
  if (missing.length > 0) {
    const one = missing.length === 1 ? 'a file is' : `${missing.length} files are`
    return { ...base, status: 'missing', message: `${one} missing: ${missing.map(({ file }) => file).join(', ')}` }
  }
  if (environment === null) {
    return { ...base, status: 'possible', message: 'nothing is missing; --try shows whether it computes right' }
  }
  const proof = await proveDevice(name, environment)
  if (!proof.isTrusted) return { ...base, proof, status: 'refused', message: proof.problem ?? 'it cannot be used' }
  const error = maxOf(proof.graphs.map((graph) => graph.error))
  const { onCpu, all } = placementOf(proof)
  const speed = speedupOf(proof)
  const pace =
    speed === null
      ? ''
      : `, ${speed >= 1 ? speed.toFixed(1) : speed.toPrecision(1)} times as fast as the CPU at a small model`
  const message = `right within ${error.toExponential(1)}, ${onCpu} of ${all} nodes left on the CPU${pace}`
  return { ...base, proof, status: 'proven', message }
}
