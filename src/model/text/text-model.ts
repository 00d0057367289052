/**
 * Everything textual about a base model: its tokenizer, its chat template, its end-of-turn tokens.
 *
 * Loaded from a Hugging Face directory or from a GGUF file alone; weights are not touched.
 */
import { readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { AppError, InvalidRequestError, TokenizerError, WeightsError } from '#base/errors/errors.js'
import { isJsonObject, type JsonObject, type JsonValue } from '#base/util/json.js'
import { assertOwnBytes, isUtf16 } from '#model/weights/byte-file.js'
import { readGgufMetadata } from '#model/weights/gguf-metadata.js'
import { parseJsonText } from '#model/weights/strict-json.js'
import { type ChatTemplate, createChatTemplate, withToolTemplate } from './chat-template.js'
import { createGgufTokenizer } from './gguf-tokenizer.js'
import { type BoundaryTokens, createHuggingFaceTokenizer } from './hf-tokenizer.js'
import type { Tokenizer } from './tokenizer.js'
import { assertParsable, MAX_TOKENIZER_BYTES } from './vocabulary/limits.js'

/**
 * The token that a chat template writes right behind an assistant's content. It ends an answer, whatever the model's files say of
 * ends: base models that are given a chat template often name `<|endoftext|>` alone, and an answer would run to its limit. llama.cpp
 * ends there by a list of known names; here the template itself is asked.
 */
const ANSWER = 'Yes, that is right.'
const MESSAGES = [
  { role: 'user', content: 'Is it?' },
  { role: 'assistant', content: ANSWER },
]

/** Null when the template writes no special token there, or refuses a plain conversation. */
export function turnEndOf(
  template: ChatTemplate,
  { specialTokens, tokenToId }: Pick<Tokenizer, 'specialTokens' | 'tokenToId'>,
): number | null {
  const text = renderedTurn(template)
  const at = text.lastIndexOf(ANSWER)
  if (at < 0) return null
  const rest = text.slice(at + ANSWER.length).trimStart()
  const [longest] = specialTokens.filter((token) => rest.startsWith(token)).sort((a, b) => b.length - a.length)
  return longest === undefined ? null : tokenToId(longest)
}

/** The turn as the last one: what opens the next turn does not end this one. */
function renderedTurn(template: ChatTemplate): string {
  try {
    return template.render({ messages: MESSAGES, addGenerationPrompt: false }).text
  } catch (error) {
    if (error instanceof AppError) return ''
    throw error
  }
}

export interface TextModel {
  readonly tokenizer: Tokenizer
  /** Null when the model is no chat model. */
  readonly chatTemplate: ChatTemplate | null
  /**
   * Tokens that end a turn: the tokenizer's own EOS first, then those of `generation_config.json`, then the one that the chat template writes
   * behind an answer. May be empty.
   */
  readonly eosTokenIds: readonly number[]
  /** The last of them, where the chat template alone tells that it ends a turn; null where the model's files name it too. */
  readonly templateEndId: number | null
  readonly bosTokenId: number | null
  /** Sentences: which of several chat templates counts. Absent: there is nothing to choose. */
  readonly templateNotes?: readonly string[]
  /** `bos_token`, `eos_token` and the like, as templates see them. */
  readonly tokenVariables: Readonly<Record<string, string>>
}

/**
 * Loads the textual side of a model.
 *
 * Reads `tokenizer.json`, `tokenizer_config.json`, `special_tokens_map.json`, `generation_config.json`, `config.json` and the chat
 * templates of a directory, or the metadata of a GGUF file.
 *
 * @throws {TokenizerError} `tokenizer_not_found`, `invalid_tokenizer_file`, `unsupported_tokenizer`,
 *   `tokenizer_too_large`, `invalid_chat_template`
 */
export async function loadTextModel(sourcePath: string): Promise<TextModel> {
  const found = await stat(sourcePath).catch(() => null)
  if (found === null) throw new TokenizerError('tokenizer_not_found', `model "${sourcePath}" does not exist`)
  return found.isDirectory() ? loadDirectory(sourcePath) : loadGguf(sourcePath)
}

async function loadGguf(path: string): Promise<TextModel> {
  const { metadata } = await readGgufMetadata(path)
  const { tokenizer, bosTokenId, eosTokenIds } = createGgufTokenizer(metadata)
  const spelling = (id: number | undefined | null): string =>
    typeof id === 'number' ? (tokenizer.idToToken(id) ?? '') : ''
  const tokenVariables = { bos_token: spelling(bosTokenId), eos_token: spelling(eosTokenIds[0]) }
  const source = (name: string): string | null => {
    const value = metadata.get(`tokenizer.${name}`)
    return typeof value === 'string' ? value : null
  }
  const sources = { plain: source('chat_template'), withTools: source('chat_template.tool_use') }
  const chatTemplate = createTemplate(sources, tokenizer, tokenVariables)
  return {
    tokenizer,
    chatTemplate,
    ...endsOf(eosTokenIds, chatTemplate, tokenizer),
    bosTokenId,
    tokenVariables,
  }
}

interface TemplateSources {
  readonly plain: string | null
  /** Another template for conversations with tools. */
  readonly withTools: string | null
  readonly notes?: readonly string[]
}

function createTemplate(
  { plain, withTools }: TemplateSources,
  tokenizer: Tokenizer,
  tokenVariables: Readonly<Record<string, string>>,
): ChatTemplate | null {
  if (plain === null) return null
  const options = { controlTokens: tokenizer.specialTokens, tokenVariables }
  const template = createChatTemplate(plain, options)
  return withTools === null ? template : withToolTemplate(template, createChatTemplate(withTools, options))
}

/** Templates of requests kept per model, compiled. */
const MAX_OTHER_TEMPLATES = 8
const otherTemplates = new WeakMap<TextModel, Map<string, ChatTemplate>>()

/**
 * The model with another chat template.
 *
 * @throws {InvalidRequestError} `invalid_value` when it is no valid Jinja
 */
export function withChatTemplate(model: TextModel, source: string): TextModel {
  const known = otherTemplates.get(model) ?? new Map<string, ChatTemplate>()
  otherTemplates.set(model, known)
  const { tokenizer, tokenVariables } = model
  try {
    const template =
      known.get(source) ?? createChatTemplate(source, { controlTokens: tokenizer.specialTokens, tokenVariables })
    known.delete(source)
    known.set(source, template)
    const [oldest] = known.keys()
    if (known.size > MAX_OTHER_TEMPLATES && oldest !== undefined) known.delete(oldest)
    return { ...model, chatTemplate: template }
  } catch (cause) {
    if (!(cause instanceof TokenizerError)) throw cause
    throw new InvalidRequestError('invalid_value', cause.message, { param: 'chat_template', cause })
  }
}

async function loadDirectory(directory: string): Promise<TextModel> {
  const readJson = (name: string): Promise<JsonValue | null> => readJsonFile(join(directory, name))
  const tokenizerJson = await readJson('tokenizer.json')
  if (tokenizerJson === null) {
    throw new TokenizerError('tokenizer_not_found', `model directory "${directory}" has no tokenizer.json`, {
      hint: 'write it with transformers: AutoTokenizer.from_pretrained(directory).save_pretrained(directory)',
    })
  }
  const tokenizerConfig = objectOrEmpty(await readJson('tokenizer_config.json'))
  const generationConfig = objectOrEmpty(await readJson('generation_config.json'))
  const config = objectOrEmpty(await readJson('config.json'))
  // older tokenizers name their special tokens in a file of their own, and only there
  const tokenVariables = {
    ...readTokenVariables(objectOrEmpty(await readJson('special_tokens_map.json'))),
    ...readTokenVariables(tokenizerConfig),
  }
  const boundaries = readBoundaries(tokenizerConfig, tokenVariables)
  const tokenizer = createHuggingFaceTokenizer(tokenizerJson, boundaries, tokenizerConfig['added_tokens_decoder'])
  const idOf = (name: string): number | null => {
    const token = tokenVariables[name]
    return token === undefined ? null : tokenizer.tokenToId(token)
  }
  const eosTokenIds = [
    idOf('eos_token'),
    ...idList(generationConfig['eos_token_id']),
    ...idList(config['eos_token_id']),
  ].filter((id): id is number => id !== null && id < tokenizer.vocabularySize)
  const bosTokenId = idOf('bos_token') ?? idList(generationConfig['bos_token_id'] ?? config['bos_token_id'])[0] ?? null
  const templates = await readTemplates(directory, tokenizerConfig)
  const chatTemplate = createTemplate(templates, tokenizer, tokenVariables)
  return {
    tokenizer,
    chatTemplate,
    ...endsOf(eosTokenIds, chatTemplate, tokenizer),
    bosTokenId,
    templateNotes: templates.notes ?? [],
    tokenVariables,
  }
}

function endsOf(
  named: readonly number[],
  chatTemplate: ChatTemplate | null,
  tokenizer: Tokenizer,
): Pick<TextModel, 'eosTokenIds' | 'templateEndId'> {
  const turnEnd = chatTemplate === null ? null : turnEndOf(chatTemplate, tokenizer)
  const templateEndId = turnEnd !== null && !named.includes(turnEnd) ? turnEnd : null
  return { eosTokenIds: [...new Set([...named, ...(templateEndId === null ? [] : [templateEndId])])], templateEndId }
}

/** Templates in files of their own, as transformers writes them since 4.50, before those of `tokenizer_config.json`. */
async function readTemplates(directory: string, tokenizerConfig: JsonObject): Promise<TemplateSources> {
  const plain = await readTextFile(join(directory, 'chat_template.jinja'))
  const configured = templatesOf(tokenizerConfig['chat_template'])
  if (plain === null) return configured
  const withTools = await readTextFile(join(directory, 'additional_chat_templates', 'tool_use.jinja'))
  const isOther = configured.plain !== null && configured.plain !== plain
  const notes = isOther
    ? ['its chat_template.jinja is used, as in transformers, and another template in tokenizer_config.json is not']
    : []
  return { plain, withTools, notes }
}

/** Special tokens of `tokenizer_config.json` as templates see them: a string, or an object with `content`. */
function readTokenVariables(tokenizerConfig: JsonObject): Record<string, string> {
  const variables: Record<string, string> = {}
  for (const name of ['bos_token', 'eos_token', 'pad_token', 'unk_token']) {
    const value = tokenizerConfig[name]
    const token = isJsonObject(value) ? value['content'] : value
    if (typeof token === 'string') variables[name] = token
  }
  return variables
}

/** The tokenizer classes that obey `add_bos_token` and `add_eos_token` in transformers. */
const boundaryClasses = /^(Code)?Llama|^Gemma|^Cohere/

function readBoundaries(tokenizerConfig: JsonObject, tokens: Readonly<Record<string, string>>): BoundaryTokens {
  if (!boundaryClasses.test(String(tokenizerConfig['tokenizer_class']))) return {}
  const { add_bos_token: addsBos, add_eos_token: addsEos } = tokenizerConfig
  return {
    ...(typeof addsBos === 'boolean' && { prefix: addsBos ? (tokens['bos_token'] ?? null) : null }),
    ...(typeof addsEos === 'boolean' && { suffix: addsEos ? (tokens['eos_token'] ?? null) : null }),
  }
}

/** One template, or those named "default" and "tool_use" of a list of named ones: without the first, transformers refuses chats without tools. */
function templatesOf(value: JsonValue | undefined): TemplateSources {
  if (typeof value === 'string') return { plain: value, withTools: null }
  const named = Array.isArray(value) ? value.filter(isJsonObject) : []
  const source = (entry: JsonObject | undefined): string | null =>
    typeof entry?.['template'] === 'string' ? entry['template'] : null
  const find = (name: string): string | null => source(named.find((entry) => entry['name'] === name))
  const [plain, withTools] = [find('default'), find('tool_use')]
  if (plain !== null || named.length === 0) return { plain, withTools }
  const names = named
    .map((entry) =>
      String(entry['name'])
        .slice(0, 100)
        .replace(/[^\w .-]/g, '?'),
    )
    .join(', ')
  const problem = `the model has chat templates named ${names} and none named default`
  return {
    plain: `{{ raise_exception(${JSON.stringify(problem)}) }}`,
    withTools,
    notes: [
      `its chat templates are named ${names} and none of them default: chats${withTools === null ? '' : ' without tools'} are refused, as in transformers`,
    ],
  }
}

function idList(value: JsonValue | undefined): number[] {
  const list: readonly JsonValue[] = Array.isArray(value) ? value : [value ?? null]
  return list.filter((id): id is number => typeof id === 'number' && Number.isInteger(id) && id >= 0)
}

const objectOrEmpty = (value: JsonValue | null): JsonObject => (isJsonObject(value) ? value : {})

async function readJsonFile(path: string): Promise<JsonValue | null> {
  const text = await readTextFile(path)
  if (text === null) return null
  assertParsable(text, path)
  try {
    return parseJsonText(text, `file "${path}"`)
  } catch (cause) {
    const reason = cause instanceof WeightsError ? cause.message : String(cause)
    throw new TokenizerError('invalid_tokenizer_file', `file "${path}" must be JSON: ${reason}`, { cause })
  }
}

/** The text of a file, or null when it does not exist. */
async function readTextFile(path: string): Promise<string | null> {
  const found = await stat(path).catch(() => null)
  if (found === null || !found.isFile()) return null
  if (found.size > MAX_TOKENIZER_BYTES) {
    throw new TokenizerError(
      'tokenizer_too_large',
      `file "${path}" has ${found.size} bytes, expected at most ${MAX_TOKENIZER_BYTES}`,
    )
  }
  const bytes = await readFile(path)
  if (isUtf16(bytes)) {
    throw new TokenizerError(
      'invalid_tokenizer_file',
      `file "${path}" begins with the byte order mark of UTF-16, expected UTF-8`,
    )
  }
  assertOwnBytes(bytes, path)
  return bytes.toString('utf8').replace(/^\uFEFF/, '')
}
