/**
 * Grammars in Lark's notation through the real compiler: which texts may be written, asked byte by byte.
 */
import { expect, test } from 'vitest'
import { systemClock } from '#base/util/clock.js'
import { compileGrammar } from '#inference/grammar/grammar.js'
import { expectCode } from '../../support/expect-code.js'
import { accepts, byteTable } from '../../support/schemas/acceptor.js'
import { LARK_GRAMMARS } from '../../support/schemas/lark-grammars.js'

const options = { clock: systemClock }
const table = byteTable()

test.each(LARK_GRAMMARS)('$name', async ({ grammar, taken, refused }) => {
  const compiled = await compileGrammar({ kind: 'ebnf', grammar }, table, options)
  const takes = (texts: readonly string[]) => texts.filter((text) => accepts(compiled, text))
  expect({ taken: takes(taken), refused: takes(refused) }).toEqual({ taken, refused: [] })
  await compiled.dispose()
})

test('what cannot be converted comes back from the thread by name and line', async () => {
  const spec = { kind: 'ebnf', grammar: 'start: A\nA.2: "a"' } as const
  await expectCode(() => compileGrammar(spec, table, options), 'invalid_grammar', 'line 2: "A" has a priority')
})

test('a grammar that nests without end is refused', async () => {
  const spec = { kind: 'ebnf', grammar: `start: ${'('.repeat(200_000)}` } as const
  await expectCode(() => compileGrammar(spec, table, options), 'grammar_too_complex', 'nested too deeply')
})
