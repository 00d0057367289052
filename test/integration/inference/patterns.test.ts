/**
 * Regular expressions and classes of characters at every door (an expression of its own, the pattern of a schema and of a tool, GBNF, Lark,
 * structural tags): what may be written is what JavaScript's flag `u` matches, asked byte by byte. One instance of the compiler takes all.
 */
import { beforeAll, describe, expect, test } from 'vitest'
import { createRng } from '#base/util/rng.js'
import type { GrammarSpec } from '#inference/grammar/grammar-spec.js'
import { compile, toGrammarWork } from '#inference/grammar/grammar-thread.js'
import { type LoadedXgrammar, loadXgrammar } from '#inference/grammar/xgrammar.js'
import { toByteLevelText } from '#model/text/vocabulary/byte-level.js'
import { patternToJavaScript } from '../../support/schemas/pattern-to-javascript.js'
import { randomClass, randomPattern, randomTexts } from '../../support/schemas/random-patterns.js'

const STOP = 256
let xgrammar: LoadedXgrammar['xgrammar']
let compiler: Parameters<typeof compile>[1]
beforeAll(async () => {
  xgrammar = loadXgrammar(2 ** 30).xgrammar
  const bytes = Array.from({ length: 256 }, (_, byte) => toByteLevelText(Uint8Array.of(byte)))
  const info = await xgrammar.TokenizerInfo.createTokenizerInfo([...bytes, ''], 'byte_level', false, 257, [STOP])
  compiler = await xgrammar.GrammarCompiler.createGrammarCompiler(info, false)
})

/** Those of the texts that may be written as a whole. */
async function taken(spec: GrammarSpec, texts: readonly string[]): Promise<string[]> {
  const compiled = await compile(xgrammar, compiler, toGrammarWork(spec))
  const found: string[] = []
  for (const text of texts) {
    const matcher = await xgrammar.GrammarMatcher.createGrammarMatcher(compiled)
    let isTaken = true
    for (const byte of Buffer.from(text)) isTaken &&= matcher.acceptToken(byte)
    const words = isTaken ? await matcher.getNextTokenBitmask() : new Int32Array(9)
    if (isTaken && ((words[STOP >>> 5] ?? 0) >>> (STOP & 31)) % 2 !== 0) found.push(text)
    matcher.dispose()
  }
  compiled.dispose()
  return found
}

const json = (schema: object): GrammarSpec => ({
  kind: 'json_schema',
  schema: JSON.stringify(schema),
  isWhitespaceFree: true,
})
const tag = (format: object, isOfCalls = false): GrammarSpec => ({
  kind: 'structural_tag',
  tag: JSON.stringify({ type: 'structural_tag', format }),
  isOfCalls,
})
/** How a text of the expression stands in an answer. */
interface Door {
  readonly spec: (pattern: string) => GrammarSpec
  readonly written: (text: string) => string
}
const asIs = (text: string): string => text
const DOORS: Readonly<Record<string, Door>> = {
  regex: { spec: (pattern) => ({ kind: 'regex', pattern }), written: asIs },
  schema: { spec: (pattern) => json({ type: 'string', pattern }), written: JSON.stringify },
  tool: {
    spec: (pattern) => {
      const parameters = { type: 'object', properties: { a: { type: 'string', pattern } }, required: ['a'] }
      return tag(
        { type: 'tag', begin: '<c>', content: { type: 'json_schema', json_schema: parameters }, end: '</c>' },
        true,
      )
    },
    written: (text) => `<c>{"a": ${JSON.stringify(text)}}</c>`,
  },
  tag: {
    spec: (pattern) => tag({ type: 'tag', begin: '<', content: { type: 'regex', pattern }, end: '>' }),
    written: (text) => `<${text}>`,
  },
  Lark: {
    spec: (pattern) => ({ kind: 'ebnf', grammar: `start: "<" A ">"\nA: /${pattern}/` }),
    written: (text) => `<${text}>`,
  },
}

describe.each(Object.entries(DOORS))('random expressions, as %s', (name, { spec, written }) => {
  test('take what JavaScript matches, and nothing else', async () => {
    const rng = createRng(`patterns of ${name}`)
    const random = (): number => rng.uniform()
    let matched = 0
    for (let count = 0; count < 40; ) {
      const pattern = randomPattern(random)
      // to Lark an empty terminal is none, laziness has a meaning, and a slash ends it
      if (name === 'Lark' && (/[*+]\?|\n/.test(pattern) || new RegExp(`^(?:${pattern})$`, 'u').test(''))) continue
      count++
      const whole = new RegExp(`^(?:${pattern})$`, 'u')
      const texts = randomTexts(random, pattern, 40)
      const expected = texts.filter((text) => whole.test(text)).map(written)
      matched += expected.length
      expect({ pattern, taken: await taken(spec(pattern), texts.map(written)) }).toEqual({ pattern, taken: expected })
      expect(texts.filter((text) => new RegExp(patternToJavaScript(pattern), 'u').test(text)).map(written)).toEqual(
        expected,
      )
    }
    expect(matched).toBeGreaterThan(50)
  })
})

test('random classes of GBNF take the characters that they name, and the point any character', async () => {
  const rng = createRng('classes of GBNF')
  const random = (): number => rng.uniform()
  let matched = 0
  for (let count = 0; count < 40; count++) {
    const [first, second] = [randomClass(random), randomClass(random)]
    const grammar = `# [а] "\nroot ::= ${first}{1,2} rest*\nrest ::= ${second} . "é\\u0451\\-"`
    const whole = new RegExp(`^${first}{1,2}(?:${second}[^]éё-)*$`, 'u')
    const texts = randomTexts(random, first + second, 40).flatMap((text) => [text, `${text}éё-`])
    const expected = texts.filter((text) => whole.test(text))
    matched += expected.length
    expect({ grammar, taken: await taken({ kind: 'ebnf', grammar }, texts) }).toEqual({ grammar, taken: expected })
  }
  expect(matched).toBeGreaterThan(100)
})

test.each(['regex', 'schema', 'tag'])('properties of characters and both cases, as %s', async (name) => {
  const door = DOORS[name]
  if (door === undefined) throw new Error(`no door ${name}`)
  const texts = ['aЯ', 'ß', 'я', 'ЯЯ', '1', '١', 'Ω', 'ω', 'Ω', 'K', 'k', 'ſ', 's', '', '😀', '𐐀', '𐐨']
  for (const pattern of ['\\p{L}+', '[^\\p{L}\\d]', '\\p{Lu}{2}', '\\P{L}', '[\\p{Nd}]', '\\p{Script=Greek}']) {
    const expected = texts.filter((text) => new RegExp(`^(?:${pattern})$`, 'u').test(text)).map(door.written)
    expect(await taken(door.spec(pattern), texts.map(door.written)), pattern).toEqual(expected)
  }
  for (const pattern of ['я{1,2}', '[^k]', 'ω', '[s-t]', '𐐀', '\\W', '[\\w]', '\\p{Lu}']) {
    const expected = texts.filter((text) => new RegExp(`^(?:${pattern})$`, 'iu').test(text)).map(door.written)
    expect(await taken(door.spec(`(?i)${pattern}`), texts.map(door.written)), pattern).toEqual(expected)
  }
})
