/**
 * The thread of one grammar: reads and compiles it, then answers for every choice that is held to it which tokens may come next.
 *
 * A grammar has a thread and a WebAssembly instance of its own, because an invalid one aborts its instance and an exploding one
 * computes for ever: the owner ends the thread and nothing else is harmed.
 */
import { readlinkSync } from 'node:fs'
import { parentPort, workerData } from 'node:worker_threads'
import { type ErrorMessage, toErrorMessage } from '#base/errors/error-message.js'
import { InvalidRequestError } from '#base/errors/errors.js'
import { isLark } from '#formats/grammars/lark.js'
import { toByteLevelText } from '#model/text/vocabulary/byte-level.js'
import { plainEbnf } from './ebnf.js'
import { choiceGrammar, type GrammarSpec } from './grammar-spec.js'
import { checkHeap, limitHeap } from './heap-limit.js'
import { larkToEbnf } from './lark.js'
import { createMaskBuffer, MASK_STATE, type MaskBuffer, publishMask } from './mask-buffer.js'
import { type GrammarSchema, toGrammarSchema } from './schema/json-schema.js'
import { PatternError } from './schema/pattern-reader.js'
import { textRule } from './schema/pattern-writer.js'
import { patchGrammar } from './schema/schema-patches.js'
import { markedControls, parseJson, toNumberedTag, withGrammars } from './structural-tag.js'
import { type TokenTable, tokenBytes } from './token-table.js'
import { createWhiteSpaceLimits, type WhiteSpaceLimit } from './white-space.js'
import { type LoadedXgrammar, loadXgrammar } from './xgrammar.js'

/**
 * What a grammar's thread compiles: a specification read, its schemas as the compiler understands them.
 *
 * Reading a large schema takes a tenth of a second, so it is done in the thread: the engine's own only passes the text along.
 */
interface GrammarWork {
  /** Regular expressions have become EBNF. */
  readonly spec: Exclude<GrammarSpec, { readonly kind: 'regex' }>
  /** The one of a `json_schema`, those that a structural tag numbers. */
  readonly schemas: readonly GrammarSchema[]
}

/** @throws {InvalidRequestError} `unsupported_schema`: whatever the compiler would skip in a schema is refused before it starts; `invalid_grammar` for a regular expression or a grammar that cannot be kept */
export function toGrammarWork(spec: GrammarSpec): GrammarWork {
  switch (spec.kind) {
    case 'json_schema':
      return { spec, schemas: [toGrammarSchema(parseJson(spec.schema, 'JSON schema'), spec)] }
    case 'structural_tag': {
      const { tag, schemas } = toNumberedTag(
        spec.tag,
        { grammar: toEbnf, regex: (pattern) => regexToEbnf(pattern, spec) },
        spec,
      )
      return { spec: { ...spec, tag }, schemas }
    }
    case 'ebnf':
      return { spec: { ...spec, grammar: toEbnf(spec.grammar) }, schemas: [] }
    case 'regex':
      return { spec: { kind: 'ebnf', grammar: regexToEbnf(spec.pattern, spec) }, schemas: [] }
    case 'choice':
      return { spec, schemas: [] }
  }
}

const toEbnf = (grammar: string): string => (isLark(grammar) ? larkToEbnf(grammar) : plainEbnf(grammar))

function regexToEbnf(pattern: string, { reach }: { readonly reach?: number }): string {
  try {
    return `root ::= ${textRule(pattern, reach === undefined ? {} : { reach })}`
  } catch (cause) {
    if (!(cause instanceof PatternError)) throw cause
    const message = `Failed to transform regex into a grammar: ${JSON.stringify(pattern.slice(0, 100))} ${cause.message}`
    throw new InvalidRequestError('invalid_grammar', message, { cause })
  }
}

export interface GrammarThreadData {
  readonly spec: GrammarSpec
  readonly table: TokenTable
  /** WebAssembly memory beyond what the vocabulary takes. */
  readonly maxBytes: number
  /** JavaScript heap. */
  readonly maxHeapBytes: number
  /** One number, written by the thread: the KiB that its memory has grown to. */
  readonly usedKib: SharedArrayBuffer
}

/** From the owner: a choice begins, took a token, ends. */
export type GrammarThreadCommand =
  | { readonly type: 'open'; readonly choice: number; readonly memory: SharedArrayBuffer }
  | { readonly type: 'accept'; readonly choice: number; readonly tokenId: number }
  | { readonly type: 'close'; readonly choice: number }

/** To the owner. What comes between `working` and `resting` or the end is what the time limit is for. */
export type GrammarThreadEvent =
  | { readonly type: 'working'; readonly threadId: number | null }
  | { readonly type: 'resting' }
  /** @property unheld keywords of its schemas that were left out, with their places */
  | { readonly type: 'compiled'; readonly unheld: readonly string[] }
  /** It was not compiled: what it says cannot be honoured. */
  | { readonly type: 'unreadable'; readonly error: ErrorMessage }
  | {
      readonly type: 'refused'
      readonly reason: string
      readonly printed: string
      readonly isMemoryExhausted: boolean
    }

/** Far above what the largest vocabularies take: 262,144 tokens need 40 MiB. */
const MAX_VOCABULARY_BYTES = 256 * 2 ** 20

/** Keywords that are named: there may be one for every part of a schema. */
const MOST_UNHELD = 100

type Xgrammar = LoadedXgrammar['xgrammar']
type Compiler = Awaited<ReturnType<Xgrammar['GrammarCompiler']['createGrammarCompiler']>>
type Compiled = Awaited<ReturnType<Compiler['compileGrammar']>>
type Matcher = Awaited<ReturnType<Xgrammar['GrammarMatcher']['createGrammarMatcher']>>

interface OpenChoice {
  readonly matcher: Matcher
  readonly buffer: MaskBuffer
  /** Null for grammars whose white space is their author's business. */
  readonly whiteSpace: WhiteSpaceLimit | null
  /** Number of the mask published last. */
  count: number
}

/** Compiles what `toGrammarWork` made of a specification; tests call it without a thread. */
export async function compile(
  { Testings }: Xgrammar,
  compiler: Compiler,
  { spec, schemas }: GrammarWork,
): Promise<Compiled> {
  const grammars: string[] = []
  for (const { schema, patches } of schemas) {
    const text = JSON.stringify(schema)
    const isWhitespaceFree = spec.kind === 'json_schema' && spec.isWhitespaceFree
    const ebnf = isWhitespaceFree
      ? await Testings._jsonSchemaToEBNF(text, false, -1, [',', ':'])
      : await Testings._jsonSchemaToEBNF(text, true)
    grammars.push(patchGrammar(ebnf, patches))
    checkHeap(1)
  }
  switch (spec.kind) {
    case 'json_schema':
      return compiler.compileGrammar(grammars[0] ?? '')
    case 'choice':
      return compiler.compileGrammar(choiceGrammar(spec.choices))
    case 'ebnf':
      return compiler.compileGrammar(spec.grammar)
    case 'structural_tag':
      return compiler.compileStructuralTag(withGrammars(spec.tag, grammars))
  }
}

/**
 * The texts of the vocabulary live in here only: they are as large as all the rest of a small grammar.
 *
 * @param controls tokens that the grammar may ask for besides, as they are shown
 */
async function createCompiler(
  { TokenizerInfo, GrammarCompiler }: Xgrammar,
  table: TokenTable,
  controls: ReadonlyMap<number, string>,
): Promise<Compiler> {
  const texts = Array.from(tokenBytes(table), toByteLevelText)
  for (const [id, text] of controls) texts[id] = toByteLevelText(Buffer.from(text))
  const stopIds = [...table.stopTokenIds]
  const info = await TokenizerInfo.createTokenizerInfo(texts, 'byte_level', false, texts.length, stopIds)
  return GrammarCompiler.createGrammarCompiler(info, false)
}

/** The kernel's number of this thread, whose processor time the owner can then read; null where there is none. */
function kernelThreadId(): number | null {
  try {
    return Number(readlinkSync('/proc/thread-self').split('/').at(-1))
  } catch {
    return null
  }
}

async function run(
  work: GrammarWork,
  { table, maxBytes, usedKib }: GrammarThreadData,
  { xgrammar, limitGrowth, memoryBytes }: LoadedXgrammar,
  port: NonNullable<typeof parentPort>,
): Promise<void> {
  const send = (event: GrammarThreadEvent): void => port.postMessage(event)
  const { spec } = work
  const stopIds = [...table.stopTokenIds]
  const vocabularySize = table.offsets.byteLength / 4 - 1
  const isOfCalls = spec.kind === 'structural_tag' && spec.isOfCalls === true
  const compiler = await createCompiler(
    xgrammar,
    table,
    isOfCalls ? markedControls(spec.tag, table.controls) : new Map(),
  )
  limitGrowth(maxBytes)
  const used = new Int32Array(usedKib)
  send({ type: 'working', threadId: kernelThreadId() })
  const compiled = await compile(xgrammar, compiler, work)
  await assertBeginning(xgrammar, compiled)
  used[0] = memoryBytes() / 1024
  const choices = new Map<number, OpenChoice>()
  // calls are JSON, and the marks around them hold none of half a string
  const isJson = spec.kind === 'json_schema' || isOfCalls
  const limitWhiteSpace = isJson || spec.kind === 'structural_tag' ? createWhiteSpaceLimits(table, isJson) : null

  async function publish(choice: OpenChoice): Promise<void> {
    choice.count++
    try {
      if (choice.matcher.isTerminated()) stopTokensOnly(choice.buffer, stopIds)
      else {
        choice.buffer.words.set(await choice.matcher.getNextTokenBitmask())
        choice.whiteSpace?.apply(choice.buffer.words)
      }
      publishMask(choice.buffer, choice.count, MASK_STATE.allowed)
    } catch {
      publishMask(choice.buffer, choice.count, MASK_STATE.failed)
    }
    used[0] = memoryBytes() / 1024
  }

  async function handle(command: GrammarThreadCommand): Promise<void> {
    if (command.type === 'open') {
      const matcher = await xgrammar.GrammarMatcher.createGrammarMatcher(compiled)
      const buffer = createMaskBuffer(vocabularySize, command.memory)
      const choice = { matcher, buffer, whiteSpace: limitWhiteSpace?.() ?? null, count: 0 }
      choices.set(command.choice, choice)
      return publish(choice)
    }
    const choice = choices.get(command.choice)
    if (choice === undefined) return
    if (command.type === 'close') {
      choices.delete(command.choice)
      return choice.matcher.dispose()
    }
    choice.whiteSpace?.accept(command.tokenId)
    if (choice.matcher.isTerminated() || choice.matcher.acceptToken(command.tokenId)) return publish(choice)
    choice.count++
    publishMask(choice.buffer, choice.count, MASK_STATE.failed)
  }

  // one command after the other: a matcher is created with a promise
  let last: Promise<void> = Promise.resolve()
  port.on('message', (command: GrammarThreadCommand) => {
    last = last.then(() => handle(command))
  })
  send({ type: 'compiled', unheld: work.schemas.flatMap(({ unheld }) => unheld).slice(0, MOST_UNHELD) })
}

/**
 * A grammar that only leads to itself compiles, and fails when its first token is asked for: asked here, within the limits.
 *
 * The first mask is also the largest piece of work that compiling puts off.
 */
async function assertBeginning({ GrammarMatcher }: Xgrammar, compiled: Compiled): Promise<void> {
  const matcher = await GrammarMatcher.createGrammarMatcher(compiled)
  const words = await matcher.getNextTokenBitmask()
  matcher.dispose()
  if (words.every((word) => word === 0)) throw new Error('no answer can begin, it leads only to itself')
}

/** After the end of the text only a stop token may come, however often it is asked for. */
function stopTokensOnly({ words }: MaskBuffer, stopTokenIds: readonly number[]): void {
  words.fill(0)
  for (const id of stopTokenIds) words[id >>> 5] = (words[id >>> 5] ?? 0) | (1 << (id & 31))
}

/** Reads before the library and the vocabulary are loaded: what is refused by its words costs neither. */
function readWork(spec: GrammarSpec, send: (event: GrammarThreadEvent) => void): GrammarWork | null {
  send({ type: 'working', threadId: kernelThreadId() })
  try {
    return toGrammarWork(spec)
  } catch (error) {
    send(unreadable(asRefusal(error)))
    return null
  } finally {
    send({ type: 'resting' })
  }
}

function unreadable(error: unknown): GrammarThreadEvent {
  return {
    type: 'unreadable',
    error: toErrorMessage(error, { message: 'the grammar of the request could not be read' }),
  }
}

/** Whatever nests so deeply that reading it fails is the caller's. */
function asRefusal(error: unknown): unknown {
  if (!(error instanceof RangeError)) return error
  return new InvalidRequestError('grammar_too_complex', 'the grammar of the request is nested too deeply', {
    cause: error,
  })
}

if (parentPort !== null) {
  const port = parentPort
  const data = workerData as GrammarThreadData
  limitHeap(data.maxHeapBytes)
  const work = readWork(data.spec, (event) => port.postMessage(event))
  if (work !== null) {
    const loaded = loadXgrammar(MAX_VOCABULARY_BYTES + data.maxBytes)
    run(work, data, loaded, port).catch((error: unknown) => {
      if (error instanceof InvalidRequestError) return port.postMessage(unreadable(error))
      const refused: GrammarThreadEvent = {
        type: 'refused',
        reason: error instanceof Error ? error.message : String(error),
        printed: loaded.printed(),
        isMemoryExhausted: loaded.isMemoryExhausted(),
      }
      port.postMessage(refused)
    })
  }
}
