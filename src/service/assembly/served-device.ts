/**
 * What computes on this machine: the processor, or an accelerator that was tried first.
 *
 * One that was named and does not pass is refused, with the start: nothing is answered by another one than was asked for. `auto` takes the
 * first that passes and was faster than the CPU at every kind of graph of a small model, and else the CPU, and says why.
 */
import type { Environment } from '#base/environment.js'
import { InvalidRequestError } from '#base/errors/errors.js'
import type { Logger } from '#base/logging/logger.js'
import { type Card, listCards } from '#base/processes/graphics-cards.js'
import { type Accelerator, type DeviceProof, placementOf, speedupOf } from '#contract/processes/device-proof.js'
import type { DeviceSetting, Precision } from '#contract/settings/service.js'
import type { DeviceFacts } from '#inference/host/protocol.js'
import type { Plugin } from '../plugin.js'

export interface ServedDevice {
  /** For records and people: `cpu`, or `webgpu: NVIDIA L4, driver 580.1, 24 GB`. */
  readonly description: string
  /** What an accelerator's engines are told; null for the CPU. */
  readonly facts: DeviceFacts | null
  /** Why those were not taken that might have been, a sentence each. */
  readonly notes: readonly string[]
}

const CPU: ServedDevice = { description: 'cpu', facts: null, notes: [] }

export interface ChooseDeviceOptions {
  readonly setting: DeviceSetting
  readonly precision: Precision
  /** Those that can be tried, in the order in which `auto` does. */
  readonly accelerators: NonNullable<Plugin['accelerators']>
  /** Of the process that tries. */
  readonly environment: Environment
  readonly logger: Pick<Logger, 'info'>
}

/**
 * Tries what the setting asks for.
 *
 * @throws {InvalidRequestError} `device_refused` for one that does not compute what the CPU does; `invalid_setting` for a precision it
 *   does not compute in
 */
export async function chooseDevice({
  setting,
  precision,
  accelerators,
  environment,
  logger,
}: ChooseDeviceOptions): Promise<ServedDevice> {
  if (setting === 'cpu') return CPU
  if (precision === 'int8' || precision === 'int4') {
    // of the CPU's steps, which is what auto takes here
    if (setting === 'auto')
      return { ...CPU, notes: [`device auto took the CPU: precision ${precision} is the CPU's alone`] }
    throw new InvalidRequestError('invalid_setting', `device ${setting} serves in f32, precision is ${precision}`, {
      param: 'precision',
      hint: 'leave the precision to auto, or take --device cpu',
    })
  }
  const notes: string[] = []
  const tried = accelerators.filter(({ name }) => setting === 'auto' || name === setting)
  if (tried.length === 0 && setting !== 'auto') {
    throw new InvalidRequestError('device_refused', `device ${setting} cannot be tried: no plugin does it`, {
      param: 'device',
      hint: '--device cpu always works',
    })
  }
  for (const { name: device, prove } of tried) {
    logger.info({ device }, 'device.trying')
    const proof = await prove(environment)
    const speedup = speedupOf(proof)
    const facts = { device, speedup: speedup === null ? null : Number(speedup.toPrecision(2)), ...placementOf(proof) }
    logger.info({ ...facts, problem: proof.problem }, proof.isTrusted ? 'device.proven' : 'device.refused')
    if (proof.isTrusted && (setting !== 'auto' || (speedup !== null && speedup > 1))) {
      const description = describe(device, await listCards())
      return { description, facts: { name: device, description, placement: placementClause(proof) }, notes }
    }
    if (setting !== 'auto') {
      throw new InvalidRequestError('device_refused', proof.problem ?? `${device} cannot be used`, {
        param: 'device',
        hint: '`trainyard devices` says what is there and what is missing; --device cpu always works',
      })
    }
    notes.push(`device auto did not take ${device}: ${whyNot(proof)}`)
  }
  return { ...CPU, notes }
}

function whyNot(proof: DeviceProof): string {
  if (!proof.isTrusted) return proof.problem ?? 'it cannot be used'
  const speedup = speedupOf(proof)
  const times = speedup === null ? '' : `, ${speedup.toPrecision(2)} times as fast as the CPU at a small model`
  return `it computes right, but no faster${times}; --device ${proof.device} takes it all the same`
}

/** The card's name where there is one that can be meant; which of several WebGPU takes is not told. */
function describe(device: Accelerator, cards: readonly Card[]): string {
  const [card] = cards
  if (card === undefined) return device
  const memory = card.memoryBytes === null ? [] : [`${(card.memoryBytes / 1e9).toFixed(0)} GB`]
  const driver = card.driver === null ? [] : [`driver ${card.driver}`]
  return `${device}: ${[card.name, ...driver, ...memory].join(', ')}`.slice(0, 128)
}

/** Where nodes of the graphs that were tried ran, as a clause. */
function placementClause(proof: DeviceProof): string {
  const { onCpu, all } = placementOf(proof)
  return onCpu === 0 ? 'all of its nodes on the device' : `${onCpu} of ${all} nodes left on the CPU`
}
