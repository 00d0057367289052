/**
 * `trainyard base-models add`: gives a running server another base model, from this machine's disk or from a hub.
 */

import { stat } from 'node:fs/promises'
import { basename, resolve } from 'node:path'
import type { CommandContext } from '#cli/command/context.js'
import { defineCommand } from '#cli/command/define-command.js'
import { argument, flag } from '#cli/command/flags.js'
import { isAdapter, locateAdapter, uploadAdapter } from '#cli/input/adapter-folder.js'
import { renderBar } from '#cli/live/bar.js'
import { placeIncoming } from '#cli/local/incoming.js'
import { InterruptedError, OutcomeError, UsageError } from '#cli/terminal/errors.js'
import { formatBytes, formatClock, formatCount } from '#cli/terminal/format.js'
import { startProgress } from '#cli/terminal/progress.js'
import { command } from '#contract/wire/command-words.js'
import type { BaseModel } from '#contract/wire/models.js'
import type { Client } from '#sdk/client/client.js'
import { ApiError } from '#sdk/client/errors.js'
import { sleep } from '#sdk/client/http.js'

const POLL_MS = 500

export const addBaseModel = defineCommand({
  path: ['base-models', 'add'],
  summary: 'Add a base model: a folder, a GGUF file, an adapter, or one of a hub',
  details:
    'The server goes on while it is added. A folder or file is linked, or copied with --copy; the server must run on this machine. A hub repository is downloaded by the server, from HF_ENDPOINT with HF_TOKEN of its environment; the same command again goes on where an interrupted download stopped.',
  examples: [
    ['trainyard base-models add Qwen/Qwen2.5-0.5B-Instruct', 'download from the hub, with digests checked'],
    ['trainyard base-models add org/model-GGUF --file Q8_0 --name org/model', 'one of several GGUF files'],
    [
      'trainyard base-models add ./my-dora --base-model org/model',
      'an adapter, merged exactly into a model of its own',
    ],
    ['trainyard base-models add ./my-model', 'a folder with config.json, tokenizer.json and safetensors'],
  ],
  args: { source: argument.required('folder, .gguf file, adapter, or organisation/name of a hub repository') },
  flags: {
    name: flag.text('--name <name>', 'what it is called here; default the name of the folder, file or repository'),
    file: flag.text('--file <name>', 'GGUF file of the repository, or its quantization'),
    baseModel: flag.text('--base-model <name>', 'of an adapter: the base model that it is merged into'),
    revision: flag.text('--revision <name>', 'branch, tag or commit of the repository; default main'),
    copy: flag.switch('--copy', 'copy the folder or file into the data directory instead of linking it'),
    wait: flag.toggle('--wait', 'wait until a download is complete; default on'),
  },
  exits: ['conflict', 'not_found', 'job_failed'],
  environment: [
    ['HF_ENDPOINT', "of the server: the hub's address"],
    ['HF_TOKEN', 'of the server: for private and gated models'],
  ],
  next: ['trainyard models create <name> --base-model <base model>'],
  async run(context) {
    const { connect, config, output, args, flags, signal } = context
    const client = await connect()
    const isLocal = (await stat(resolve(args.source)).catch(() => null)) !== null
    if (!isLocal && (/^[./~]/.test(args.source) || /\.gguf$/i.test(args.source))) {
      throw new UsageError('file_not_found', `${args.source} does not exist`, { param: '<source>' })
    }
    let model: BaseModel
    if (isLocal && (await isAdapter(args.source))) {
      refuseHubFlags(args.source, flags)
      const { folder } = await locateAdapter(args.source, '<source>')
      const baseModel = requireBase(args.source, flags.baseModel)
      const adapter = await uploadAdapter(args.source, { client, signal, param: '<source>' })
      const name = flags.name ?? basename(resolve(folder))
      model = await client.baseModels.add({ name, base_model: baseModel, from_adapter: adapter }, { signal })
    } else if (flags.baseModel !== undefined) {
      throw new UsageError('invalid_argument', `--base-model is for adapters, and ${args.source} is none`, {
        param: '--base-model',
      })
    } else if (isLocal) {
      refuseHubFlags(args.source, flags)
      const options = { server: config.get('server'), paths: config.paths, isCopied: flags.copy }
      const incoming = await placeIncoming(args.source, options)
      const name = flags.name ?? basename(resolve(args.source)).replace(/\.gguf$/i, '')
      try {
        model = await client.baseModels.add({ name, path: incoming.path }, { signal })
      } catch (error) {
        await incoming.remove()
        throw error instanceof ApiError ? inOwnWords(error, incoming.target, args.source) : error
      }
    } else {
      const hub = args.source.replace(/^(?:hf:\/\/|https?:\/\/[^/]+\/)/, '').replace(/\/+$/, '')
      const { name, revision, file } = flags
      model = await client.baseModels.add({ hub, name, revision, file }, { signal })
      if (flags.wait !== false) model = await waitUntilThere(context, client, model)
    }
    output.result(model, sentence(model), [model.name])
    for (const warning of [...(model.warnings ?? []), ...sayLost(model)]) output.warning(`${model.name}: ${warning}`)
    if (model.status === 'ready') output.hint(command`trainyard models create <name> --base-model ${model.name}`)
  },
})

/** What the server says of the place where the model lay for it, said of the place a person named. */
function inOwnWords(
  { status, message, code, param, hint, requestId, retryAfterMs }: ApiError,
  from: string,
  to: string,
) {
  const error = { message: message.replaceAll(from, to), code, param, hint }
  return new ApiError({ status, body: { error }, requestId, retryAfterMs })
}

function requireBase(source: string, baseModel: string | undefined): string {
  if (baseModel !== undefined) return baseModel
  throw new UsageError('missing_option', `${source} is an adapter, expected --base-model to merge it into`, {
    param: '--base-model',
    hint: 'trainyard base-models list shows them; trainyard models create --from-adapter begins a model with a plain LoRA',
  })
}

function refuseHubFlags(
  source: string,
  { file, revision }: { readonly file: string | undefined; readonly revision: string | undefined },
): void {
  const unused = file === undefined ? (revision === undefined ? null : '--revision') : '--file'
  if (unused === null) return
  throw new UsageError('invalid_argument', `${unused} is for hub repositories, and ${source} is on this machine`, {
    param: unused,
  })
}

function sentence(model: BaseModel): string {
  if (model.status !== 'ready') return `Downloading ${model.name}`
  const { parameters, context_length: context, size_bytes: size } = model
  const facts = [
    ...(model.architecture === null ? [] : [model.architecture]),
    ...(parameters === null ? [] : [`${formatCount(parameters)} parameters`]),
    ...(context === null ? [] : [`context ${context}`]),
    ...(size === null ? [] : [formatBytes(size)]),
  ]
  return `Added ${model.name} (${facts.join(', ')})`
}

/** Most texts of a few signs that are named. */
const NAMED = 40

/** What it can neither read nor write, single signs first. */
function sayLost({ lost_tokens: lost }: BaseModel): string[] {
  if (lost === undefined || lost === null || lost.length === 0) return []
  const texts = [...new Set(lost.map(({ text }) => text))]
  const more = texts.length > NAMED ? ` and ${texts.length - NAMED} more` : ''
  return [
    `can neither read nor write ${texts.slice(0, NAMED).join('  ')}${more}, whatever it is shown: its weights do not tell these tokens from others; answers that hold them are not learned`,
  ]
}

/** Follows a download. Ctrl-C leaves it to the server. */
async function waitUntilThere(context: CommandContext, client: Client, first: BaseModel): Promise<BaseModel> {
  const { io, output, clock, signal } = context
  const progress = startProgress(io, output.mode === 'human', `Downloading ${first.name}`)
  const startMs = clock.monotonicMs()
  const startBytes = first.downloaded_bytes ?? 0
  try {
    for (let model = first; ; model = await client.baseModels.get(first.name, { signal })) {
      if (model.status === 'ready') return model
      if (model.status !== 'downloading') {
        const hint = model.status === 'interrupted' ? 'the same command again goes on where it stopped' : undefined
        const message = `${model.name} was not added: ${model.error ?? 'the download was interrupted'}`
        throw new OutcomeError('job_failed', `download_${model.status}`, message, { hint })
      }
      progress.update(describeDownload(model, startBytes, clock.monotonicMs() - startMs))
      await sleep(POLL_MS, signal)
    }
  } catch (error) {
    if (!(error instanceof InterruptedError)) throw error
    throw error.withLines([
      `Detached: the server goes on downloading ${first.name}.`,
      `Look:   trainyard base-models list`,
      command`Stop:   trainyard base-models remove ${first.name}`,
    ])
  } finally {
    progress.stop()
  }
}

function describeDownload(model: BaseModel, startBytes: number, elapsedMs: number): string {
  const done = model.downloaded_bytes ?? 0
  const total = model.total_bytes ?? 0
  if (total === 0) return `Downloading ${model.name}`
  if (done >= total) return `Checking ${model.name}`
  const bytesPerSecond = ((done - startBytes) / Math.max(elapsedMs, 1)) * 1000
  const left = bytesPerSecond > 0 ? `  ${formatClock(((total - done) / bytesPerSecond) * 1000)} left` : ''
  const speed = bytesPerSecond > 0 ? `  ${formatBytes(bytesPerSecond)}/s` : ''
  return `${renderBar(done / total, 20)} ${formatBytes(done)} of ${formatBytes(total)}${speed}${left}`
}
