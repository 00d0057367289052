/**
 * The thread of one grammar: compiles it, then answers for every choice that is held to it which tokens may come next.
 *
 * A grammar has a thread and a WebAssembly instance of its own, because an invalid one aborts its instance and an exploding one
 * computes for ever: the owner ends the thread and nothing else is harmed.
 */
import { readlinkSync } from 'node:fs'
import { parentPort, workerData } from 'node:worker_threads'
import { toByteLevelText } from '#model/text/vocabulary/byte-level.js'
import { choiceGrammar, type GrammarSpec } from './grammar-spec.js'
import { createMaskBuffer, MASK_STATE, type MaskBuffer, publishMask } from './mask-buffer.js'
import type { GrammarSchema } from './schema/json-schema.js'
import { patchGrammar } from './schema/schema-patches.js'
import { withGrammars } from './structural-tag.js'
import { type TokenTable, tokenBytes } from './token-table.js'
import { type LoadedXgrammar, loadXgrammar } from './xgrammar.js'

export interface GrammarThreadData {
  readonly spec: GrammarSpec
  /** The one of a `json_schema`, those that a structural tag numbers. */
  readonly schemas: readonly GrammarSchema[]
  readonly table: TokenTable
  readonly maxBytes: number
}

/** From the owner: a choice begins, took a token, ends. */
export type GrammarThreadCommand =
  | { readonly type: 'open'; readonly choice: number; readonly memory: SharedArrayBuffer }
  | { readonly type: 'accept'; readonly choice: number; readonly tokenId: number }
  | { readonly type: 'close'; readonly choice: number }

/** To the owner. `compiling` comes right before the work that the time limit is for. */
export type GrammarThreadEvent =
  | { readonly type: 'compiling'; readonly threadId: number | null }
  | { readonly type: 'compiled' }
  | {
      readonly type: 'refused'
      readonly reason: string
      readonly printed: string
      readonly isMemoryExhausted: boolean
    }

type Xgrammar = LoadedXgrammar['xgrammar']
type Compiler = Awaited<ReturnType<Xgrammar['GrammarCompiler']['createGrammarCompiler']>>
type Compiled = Awaited<ReturnType<Compiler['compileGrammar']>>
type Matcher = Awaited<ReturnType<Xgrammar['GrammarMatcher']['createGrammarMatcher']>>

interface OpenChoice {
  readonly matcher: Matcher
  readonly buffer: MaskBuffer
  /** Number of the mask published last. */
  count: number
}

/** Compiles what `toGrammarWork` made of a specification; tests call it without a thread. */
export async function compile(
  { Testings }: Xgrammar,
  compiler: Compiler,
  { spec, schemas }: Pick<GrammarThreadData, 'spec' | 'schemas'>,
): Promise<Compiled> {
  const grammars: string[] = []
  for (const { schema, patches } of schemas) {
    const text = JSON.stringify(schema)
    const isWhitespaceFree = spec.kind === 'json_schema' && spec.isWhitespaceFree
    const ebnf = isWhitespaceFree
      ? await Testings._jsonSchemaToEBNF(text, false, -1, [',', ':'])
      : await Testings._jsonSchemaToEBNF(text, true)
    grammars.push(patchGrammar(ebnf, patches))
  }
  switch (spec.kind) {
    case 'json_schema':
      return compiler.compileGrammar(grammars[0] ?? '')
    case 'regex':
      return compiler.compileStructuralTag({
        type: 'structural_tag',
        format: { type: 'regex', pattern: spec.pattern },
      })
    case 'choice':
      return compiler.compileGrammar(choiceGrammar(spec.choices))
    case 'ebnf':
      return compiler.compileGrammar(spec.grammar)
    case 'structural_tag':
      return compiler.compileStructuralTag(withGrammars(spec.tag, grammars))
  }
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
  { spec, schemas, table }: GrammarThreadData,
  { xgrammar }: LoadedXgrammar,
  port: NonNullable<typeof parentPort>,
): Promise<void> {
  const send = (event: GrammarThreadEvent): void => port.postMessage(event)
  const texts = Array.from(tokenBytes(table), toByteLevelText)
  const stopIds = [...table.stopTokenIds]
  const info = await xgrammar.TokenizerInfo.createTokenizerInfo(texts, 'byte_level', false, texts.length, stopIds)
  const compiler = await xgrammar.GrammarCompiler.createGrammarCompiler(info, false)
  send({ type: 'compiling', threadId: kernelThreadId() })
  const compiled = await compile(xgrammar, compiler, { spec, schemas })
  await assertBeginning(xgrammar, compiled)
  const choices = new Map<number, OpenChoice>()

  async function publish(choice: OpenChoice): Promise<void> {
    choice.count++
    try {
      if (choice.matcher.isTerminated()) stopTokensOnly(choice.buffer, stopIds)
      else choice.buffer.words.set(Uint32Array.from(await choice.matcher.getNextTokenBitmask()))
      publishMask(choice.buffer, choice.count, MASK_STATE.allowed)
    } catch {
      publishMask(choice.buffer, choice.count, MASK_STATE.failed)
    }
  }

  async function handle(command: GrammarThreadCommand): Promise<void> {
    if (command.type === 'open') {
      const matcher = await xgrammar.GrammarMatcher.createGrammarMatcher(compiled)
      const choice = { matcher, buffer: createMaskBuffer(texts.length, command.memory), count: 0 }
      choices.set(command.choice, choice)
      return publish(choice)
    }
    const choice = choices.get(command.choice)
    if (choice === undefined) return
    if (command.type === 'close') {
      choices.delete(command.choice)
      return choice.matcher.dispose()
    }
    if (choice.matcher.isTerminated() || choice.matcher.acceptToken(command.tokenId)) return publish(choice)
    choice.count++
    publishMask(choice.buffer, choice.count, MASK_STATE.failed)
  }

  // one command after the other: a matcher is created with a promise
  let last: Promise<void> = Promise.resolve()
  port.on('message', (command: GrammarThreadCommand) => {
    last = last.then(() => handle(command))
  })
  send({ type: 'compiled' })
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

if (parentPort !== null) {
  const port = parentPort
  const data = workerData as GrammarThreadData
  const loaded = loadXgrammar(data.maxBytes)
  run(data, loaded, port).catch((error: unknown) => {
    const refused: GrammarThreadEvent = {
      type: 'refused',
      reason: error instanceof Error ? error.message : String(error),
      printed: loaded.printed(),
      isMemoryExhausted: loaded.isMemoryExhausted(),
    }
    port.postMessage(refused)
  })
}
