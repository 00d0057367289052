/**
 * The Python process that computes with PyTorch (`trainyard_torch/`): started, asked one thing after the other, ended.
 *
 * Its errors come back by their code and are said here in our words, with what to do. It ends with this process, for its input ends then.
 */
import { join } from 'node:path'
import type { Environment } from '#base/environment.js'
import { InstallationError, RuntimeError, TrainingError, WeightsError } from '#base/errors/errors.js'
import { startProgram } from '#base/processes/program.js'
import { packageRoot } from '#base/util/package-root.js'
import { type Message, readMessages, writeMessage } from './frames.js'

/** What is installed for it, and the versions it was tested with. */
export const TORCH_PACKAGES = 'torch transformers safetensors numpy'
export const TESTED_VERSIONS = 'torch 2.13.0 with transformers 5.24.0, torch 1.13.0 with transformers 4.45.2'

/** What a started process says about itself. */
export interface TorchVersions {
  readonly python: string
  readonly torch: string
  readonly transformers: string
  /** What it computes on unless told: `cuda`, `mps` or `cpu`. */
  readonly device: string
  readonly deviceName: string
  /** Bytes that its graphics card could still give; null where it has none of its own. */
  readonly freeBytes: number | null
}

export interface TorchProcess {
  readonly versions: TorchVersions
  /**
   * Sends a message and waits for its answer; questions wait for each other.
   *
   * @throws {TrainingError} `out_of_memory`; {WeightsError} `unsupported_model`; {RuntimeError} `torch_failed` for everything else that
   *   the process says, or its end
   */
  ask(message: Message): Promise<Message>
  /** False once it has ended. */
  isAlive(): boolean
  /** Ends it. */
  stop(): Promise<void>
}

export interface TorchProcessOptions {
  /** The interpreter: a name that is looked up in PATH, or a path. */
  readonly python: string
  readonly environment: Environment
}

/**
 * Starts the process and waits until PyTorch is loaded, some seconds.
 *
 * @throws {InstallationError} `trainer_unavailable` naming what is missing and how it is installed
 */
export async function startTorchProcess({ python, environment }: TorchProcessOptions): Promise<TorchProcess> {
  const program = startProgram(python, ['-u', '-m', 'trainyard_torch'], {
    environment,
    needs: ['computing', 'python'],
    given: torchVariables(environment),
    isBehind: true,
  })
  let onAnswer: ((outcome: Message | Error) => void) | null = null
  let failure: Error | null = null
  const settle = (outcome: Message | Error): void => {
    const hear = onAnswer
    onAnswer = null
    hear?.(outcome)
  }
  const fail = (error: Error): void => {
    failure ??= error
    settle(failure)
  }
  readMessages(program.output, settle, (error) => {
    fail(new RuntimeError('torch_failed', `${python} wrote something that is no answer: ${error.message}`))
    program.process.kill('SIGKILL')
  })
  void program.ended.then((how) => fail(endedError(python, how, program.complaints())))

  const answer = (): Promise<Message> =>
    new Promise((resolve, reject) => {
      if (failure !== null) return reject(failure)
      onAnswer = (outcome) => (outcome instanceof Error ? reject(outcome) : resolve(outcome))
    })
  const stop = async (): Promise<void> => {
    program.process.kill('SIGKILL')
    await program.ended
  }

  let ready: Message
  try {
    ready = await answer()
  } catch (error) {
    throw unavailable(python, error instanceof Error ? error.message : String(error))
  }
  const { header } = ready
  if (header.type === 'error') {
    await stop()
    throw unavailable(python, `${python}: ${String(header['message'])}`)
  }
  let turn: Promise<unknown> = Promise.resolve()
  return {
    versions: toVersions(header),
    isAlive: () => failure === null,
    ask: (message) => {
      const asked = turn.then(async () => {
        const waiting = answer()
        if (failure === null) writeMessage(program.input, message)
        const said = await waiting
        if (said.header.type === 'error') throw toError(said.header)
        return said
      })
      turn = asked.catch(() => undefined)
      return asked
    },
    stop,
  }
}

/** How what is missing is installed. @param python the interpreter that it is for */
export function installHint(python: string): string {
  return `install it with: ${python} -m pip install ${TORCH_PACKAGES} (tested: ${TESTED_VERSIONS}), or name another interpreter with --python, or train with --trainer onnx`
}

function unavailable(python: string, message: string): InstallationError {
  return new InstallationError('trainer_unavailable', `PyTorch is not available: ${message}`, {
    hint: installHint(python),
  })
}

/** The way to the package; no network, no progress bars. */
function torchVariables(environment: Environment): Environment {
  const root = join(packageRoot(), 'src', 'plugins', 'torch')
  const known = environment['PYTHONPATH']
  const separator = process.platform === 'win32' ? ';' : ':'
  return {
    PYTHONPATH: known === undefined || known === '' ? root : `${root}${separator}${known}`,
    PYTHONDONTWRITEBYTECODE: '1',
    HF_HUB_OFFLINE: '1',
    TRANSFORMERS_OFFLINE: '1',
    TOKENIZERS_PARALLELISM: 'false',
  }
}

function toVersions(header: Message['header']): TorchVersions {
  const text = (name: string): string => String(header[name])
  return {
    python: text('python'),
    torch: text('torch'),
    transformers: text('transformers'),
    device: text('device'),
    deviceName: text('device_name'),
    freeBytes: typeof header['free_bytes'] === 'number' ? header['free_bytes'] : null,
  }
}

function toError(header: Message['header']): Error {
  const message = String(header['message'])
  switch (header['code']) {
    case 'out_of_memory':
      return new TrainingError('out_of_memory', message, { hint: 'train on shorter rows, or free memory' })
    case 'unsupported_model':
      return new WeightsError('unsupported_model', `PyTorch cannot train this model: ${message}`, {
        hint: 'train with --trainer onnx',
      })
    default:
      return new RuntimeError('torch_failed', `PyTorch failed: ${message}`)
  }
}

function endedError(python: string, how: string, complaints: string): Error {
  const last = complaints.trim().split('\n').at(-1) ?? ''
  const why = last === '' ? '' : `: ${last}`
  // what a system does to the process that takes most when memory runs out
  const killed = how.includes('SIGKILL') ? ', most likely because memory ran out' : ''
  return new RuntimeError('torch_failed', `the Python process of ${python} ${how}${killed}${why}`)
}
