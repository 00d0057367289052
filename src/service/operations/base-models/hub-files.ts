/**
 * Which files a hub's repository has, and which of them make a base model.
 *
 * Source: the hub's HTTP API, `GET /api/models/{id}/revision/{revision}?blobs=true`: the commit, and for each file its size and the
 * digest it is stored under (SHA-256 for large files, git's SHA-1 of a blob for the rest).
 */
import type { IncomingMessage } from 'node:http'
import { AppError, InvalidRequestError, NotFoundError } from '#base/errors/errors.js'
import { isJsonObject, type JsonObject } from '#base/util/json.js'
import type { HubConnection } from './hub-connection.js'

/** A file of a repository at one commit. */
export interface HubFile {
  readonly name: string
  readonly sizeBytes: number
  /** Hex digests of its bytes; at least one of the two is known. */
  readonly sha256: string | null
  readonly gitSha1: string | null
}

export interface HubListing {
  /** The commit that the revision names now. */
  readonly commit: string
  readonly files: readonly HubFile[]
}

/** The only file in a folder that is read: a model's template for conversations with tools. */
export const TOOL_TEMPLATE = 'additional_chat_templates/tool_use.jinja'
/** Configuration, tokenizer and templates: all that is read beside the weights. */
const TEXT_FILES = new Set([
  'config.json',
  'generation_config.json',
  'tokenizer.json',
  'tokenizer_config.json',
  'special_tokens_map.json',
  'added_tokens.json',
  'chat_template.jinja',
  TOOL_TEMPLATE,
])
const WEIGHT_FILE = 'model.safetensors'
const INDEX_FILE = 'model.safetensors.index.json'
const SHARD = /^model-\d{5}-of-\d{5}\.safetensors$/

/** Whether something of this name beside a `config.json` may be read: text and weights, under whatever names an index has for them. */
export function isModelFile(name: string): boolean {
  return TEXT_FILES.has(name) || name === INDEX_FILE || /^[\w-][\w.-]{0,180}\.safetensors$/.test(name)
}

/** A repository's description is far below this. */
const MAX_LISTING_BYTES = 50_000_000
/** The hub does not accept larger files. */
const MAX_FILE_BYTES = 1e12

/**
 * Asks the hub for a repository's files.
 *
 * @param repository `organisation/name`
 * @throws {NotFoundError} `hub_model_not_found`; {AppError} `hub_model_gated`, `hub_failed`, `hub_unreachable`
 */
export async function listHubFiles(
  connection: HubConnection,
  {
    repository,
    revision,
    signal,
  }: { readonly repository: string; readonly revision: string; readonly signal: AbortSignal },
): Promise<HubListing> {
  const path = `/api/models/${repository}/revision/${encodeURIComponent(revision)}?blobs=true`
  const answer = await connection.open(path, { signal, headers: { accept: 'application/json' } })
  await requireSuccess(answer, `${repository} at revision ${revision}`)
  const listing: unknown = parse(await readText(answer))
  const commit = isJsonObject(listing) ? listing['sha'] : null
  const siblings = isJsonObject(listing) ? listing['siblings'] : null
  if (typeof commit !== 'string' || !/^[0-9a-f]{40}$/.test(commit) || !Array.isArray(siblings)) throw strange()
  return {
    commit,
    files: siblings
      .filter(isJsonObject)
      .map(toFile)
      .filter((file) => file !== null),
  }
}

/** Refuses an answer that is no success, in words that say what to do. */
export async function requireSuccess(answer: IncomingMessage, what: string): Promise<void> {
  const status = answer.statusCode ?? 0
  if (status >= 200 && status < 300) return
  answer.resume()
  const code = String(answer.headers['x-error-code'] ?? '')
  // without a token the hub tells a private repository from a missing one to nobody
  if (status === 404 || code === 'RepoNotFound') {
    throw new NotFoundError('hub_model_not_found', `the hub has no ${what}, or it is private`, {
      hint: 'check its spelling; for a private one start the server with HF_TOKEN set',
    })
  }
  if (status === 401 || status === 403) {
    throw new AppError('permission', 'hub_model_gated', `the hub does not give out ${what} without permission`, {
      hint: 'ask for access on its page, then start the server with HF_TOKEN set',
    })
  }
  throw new AppError('unavailable', 'hub_failed', `the hub answered ${status} for ${what}`, {
    hint: 'add it again later: it goes on where it stopped',
  })
}

/**
 * The files of a base model: one GGUF file, or configuration, tokenizer and safetensors.
 *
 * @param wanted name of a GGUF file, or what tells it from others (`Q8_0`); null to choose
 * @throws {InvalidRequestError} `hub_file_required` when several GGUF files could be meant, `hub_file_not_found`,
 *   `hub_model_unusable` when there is nothing that can be loaded
 */
export function chooseHubFiles(listing: HubListing, repository: string, wanted: string | null): readonly HubFile[] {
  const named = new Map(listing.files.map((file) => [file.name, file]))
  const ggufFiles = listing.files.filter((file) => /\.gguf$/i.test(file.name) && !/mmproj/i.test(file.name))
  if (wanted === null && named.has('config.json')) {
    const index = named.get(INDEX_FILE)
    const single = named.get(WEIGHT_FILE)
    const shards = index === undefined ? [] : [index, ...listing.files.filter(({ name }) => SHARD.test(name))]
    // the whole file counts, as in transformers; the index beside it tells that there are others
    const whole = single === undefined ? null : [single, ...(index === undefined ? [] : [index])]
    const weights = whole ?? (shards.length > 1 ? shards : [])
    if (weights.length > 0) {
      const text = listing.files.filter(({ name }) => TEXT_FILES.has(name))
      // small ones first: an unusable model is found out before its weights are fetched
      return [...text, ...weights.toSorted((a, b) => a.sizeBytes - b.sizeBytes)]
    }
  }
  if (ggufFiles.length === 0) {
    throw new InvalidRequestError(
      'hub_model_unusable',
      `${repository} has neither ${WEIGHT_FILE} with config.json nor a .gguf file`,
      { hint: 'choose a repository with safetensors or GGUF files; pickle files are never loaded' },
    )
  }
  if (wanted === null) {
    const [only] = ggufFiles
    if (ggufFiles.length === 1 && only !== undefined) return [only]
    throw new InvalidRequestError('hub_file_required', `${repository} has ${describe(ggufFiles)}; say which`, {
      param: 'file',
      hint: `for example --file ${quantization(ggufFiles[0]?.name ?? '')}`,
    })
  }
  const found = ggufFiles.filter(({ name }) => name === wanted)
  const alike = found.length > 0 ? found : ggufFiles.filter(({ name }) => quantization(name) === wanted.toUpperCase())
  if (alike.length === 1 && alike[0] !== undefined) return alike
  const problem = alike.length === 0 ? `no GGUF file "${wanted.slice(0, 100)}"` : `several files "${wanted}"`
  throw new InvalidRequestError('hub_file_not_found', `${repository} has ${problem} but ${describe(ggufFiles)}`, {
    param: 'file',
  })
}

/** `Q4_K_M` of `model-Q4_K_M.gguf`; the whole stem when there is no such part. */
function quantization(name: string): string {
  const stem = name.replace(/\.gguf$/i, '')
  return (/[-._]((?:IQ|Q)\d\w*|BF16|F16|F32|FP16|FP32)$/i.exec(stem)?.[1] ?? stem).toUpperCase()
}

function describe(files: readonly HubFile[]): string {
  const shown = files.slice(0, 20).map((file) => `${file.name} (${Math.ceil(file.sizeBytes / 1e6)} MB)`)
  return `${shown.join(', ')}${files.length > 20 ? ` and ${files.length - 20} more` : ''}`
}

/** Other files in folders, and names that could mean anything else than a file beside the others, are left out. */
function toFile(entry: JsonObject): HubFile | null {
  const { rfilename: name, size, blobId, lfs } = entry
  if (typeof name !== 'string' || (name !== TOOL_TEMPLATE && !/^[\w-][\w.-]{0,200}$/.test(name))) return null
  const large = isJsonObject(lfs) ? lfs : {}
  const sha256 = isHex(large['sha256'], 64)
  const gitSha1 = sha256 === null ? isHex(blobId, 40) : null
  const sizeBytes = typeof large['size'] === 'number' ? large['size'] : size
  if (
    typeof sizeBytes !== 'number' ||
    !Number.isSafeInteger(sizeBytes) ||
    sizeBytes < 0 ||
    sizeBytes > MAX_FILE_BYTES
  ) {
    throw strange()
  }
  if (sha256 === null && gitSha1 === null) throw strange()
  return { name, sizeBytes, sha256, gitSha1 }
}

function isHex(value: unknown, length: number): string | null {
  return typeof value === 'string' && value.length === length && /^[0-9a-f]+$/.test(value) ? value : null
}

async function readText(answer: IncomingMessage): Promise<string> {
  const pieces: Buffer[] = []
  let length = 0
  for await (const piece of answer) {
    length += (piece as Buffer).length
    if (length > MAX_LISTING_BYTES) throw strange()
    pieces.push(piece as Buffer)
  }
  return Buffer.concat(pieces).toString('utf8')
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw strange(cause)
  }
}

function strange(cause?: unknown): AppError {
  return new AppError('unavailable', 'hub_failed', 'the hub did not describe the repository as hubs do', {
    hint: 'check HF_ENDPOINT of the server',
    cause,
  })
}
