/**
 * Two readers of one grammar: what the compiler lets be written, and what finished answers are checked by, which knows nothing of each other.
 * On texts of the grammars and on those with a few characters changed they agree.
 */
import { expect, test } from 'vitest'
import { systemClock } from '#base/util/clock.js'
import { createRng, type Rng } from '#base/util/rng.js'
import { matchAnswer } from '#formats/grammars/match-answer.js'
import { compileGrammar } from '#inference/grammar/grammar.js'
import { accepts, byteTable } from '../../support/schemas/acceptor.js'
import { LARK_GRAMMARS } from '../../support/schemas/lark-grammars.js'

const table = byteTable()
const CHANGES = 30

const EBNF = [
  {
    name: 'arithmetic of llama.cpp',
    grammar: String.raw`root ::= (expr "=" ws term "\n")+
expr ::= term ([-+*/] term)*
term ::= ident | num | "(" ws expr ")" ws
ident ::= [a-z] [a-z0-9_]* ws
num ::= [0-9]+ ws
ws ::= [ \t\n]*`,
    taken: ['1+2=3\n', '(a -b1)*3 = x\n7=7\n'],
    refused: ['1+2=3', '1+=3\n', 'A=1\n'],
  },
  {
    name: 'a list, comments, counts',
    grammar: String.raw`# a list
root ::= item{1,3} # at most three
item ::= "- " [^\r\n\x0b\x0c\x85\u2028\u2029]+ "\n"`,
    taken: ['- one\n', '- größe\n- 日本\n- 🙂\n'],
    refused: ['- a\n- b\n- c\n- d\n', '-a\n', '- \n'],
  },
  {
    name: 'rules that begin and end with themselves',
    grammar: `root ::= left right | "" | "x" nothing nothing "y"
left ::= left "a" | "a"
right ::= "b" right | "b"
nothing ::= "n"*`,
    taken: ['ab', 'aaabbb', '', 'xy', 'xnnny'],
    refused: ['a', 'ba', 'xn', 'aabba'],
  },
  {
    name: 'letters beyond ASCII',
    grammar: String.raw`root ::= [а-яё]{2,3} . ("\u00e9" | "\\" | [\]\-"])?`,
    taken: ['ёж!é', 'мир🙂', 'да-]', 'да.\\'],
    refused: ['IE?', 'д!', 'миры!!!', 'ёж!e'],
  },
]

test.each([...LARK_GRAMMARS, ...EBNF])('$name', async ({ grammar, taken, refused }) => {
  const form = { kind: 'ebnf', grammar } as const
  const compiled = await compileGrammar(form, table, { clock: systemClock })
  try {
    const rng = createRng(grammar)
    const texts = [...taken, ...refused, ...taken.flatMap((text) => changes(text, rng))]
    const both = texts.map((text) => ({
      text,
      held: accepts(compiled, text),
      checked: matchAnswer(form, text)?.isMatch,
    }))
    expect(both.filter(({ held, checked }) => held !== checked)).toEqual([])
    expect(taken.map((text) => matchAnswer(form, text)?.isMatch)).toEqual(taken.map(() => true))
    expect(refused.map((text) => matchAnswer(form, text)?.isMatch)).toEqual(refused.map(() => false))
  } finally {
    await compiled.dispose()
  }
})

const SCHEMA = { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'], additionalProperties: false }
const JSON_PART = { type: 'json_schema', json_schema: SCHEMA }
const call = (name: string) => ({ type: 'tag', begin: `<f=${name}>`, content: JSON_PART, end: '</f>' })

const TAGS: readonly { name: string; format: object; taken: string[]; refused: string[] }[] = [
  {
    name: 'free text with calls in it',
    format: { type: 'triggered_tags', triggers: ['<f='], tags: [call('a'), call('b')] },
    taken: ['no call', 'first <f=a>{"n": 1}</f> then <f=b>{"n": -2}</f>', '<f=a>{"n":1}</f>', ''],
    refused: ['<f=c>{"n": 1}</f>', 'x <f=a>{"n": 1}', '<f=a>{}'],
  },
  {
    name: 'a call that is needed, and nothing behind it',
    format: {
      type: 'triggered_tags',
      triggers: ['<f='],
      tags: [call('a')],
      at_least_one: true,
      stop_after_first: true,
    },
    taken: ['<f=a>{"n": 1}</f>'],
    refused: ['', 'text', '<f=a>{"n": 1}</f> more'],
  },
  {
    name: 'parts in their order',
    format: {
      type: 'sequence',
      elements: [
        { type: 'const_string', value: 'Answer: ' },
        {
          type: 'or',
          elements: [
            { type: 'regex', pattern: '[0-9]{1,3}' },
            { type: 'grammar', grammar: 'root ::= "no" "!"*' },
          ],
        },
        { type: 'tag', begin: '\n', content: { type: 'any_text' }, end: 'END' },
      ],
    },
    taken: ['Answer: 12\nbecauseEND', 'Answer: no!!\nEND'],
    refused: ['Answer: 1234\nEND', 'Answer: 12\nbecause', 'answer: 12\nEND', 'Answer: 12END'],
  },
  {
    name: 'calls with something between them',
    format: { type: 'tags_with_separator', tags: [call('a'), call('b')], separator: '\n', at_least_one: true },
    taken: ['<f=a>{"n": 1}</f>', '<f=a>{"n": 1}</f>\n<f=b>{"n": 3}</f>\n<f=b>{"n": 3}</f>'],
    refused: ['', '<f=a>{"n": 1}</f>\n', '<f=a>{"n": 1}</f><f=b>{"n": 3}</f>'],
  },
]

test.each(TAGS)('a tag: $name', async ({ format, taken, refused }) => {
  const form = { kind: 'structural_tag', tag: JSON.stringify({ type: 'structural_tag', format }) } as const
  const compiled = await compileGrammar(form, table, { clock: systemClock })
  try {
    const rng = createRng(JSON.stringify(format))
    expect(taken.filter((text) => matchAnswer(form, text)?.isMatch !== true)).toEqual([])
    expect(refused.filter((text) => matchAnswer(form, text)?.isMatch !== false)).toEqual([])
    expect(refused.filter((text) => accepts(compiled, text))).toEqual([])
    // what is JSON of a schema is not looked at here, so more may match than is held
    const held = taken.flatMap((text) => [text, ...changes(text, rng)]).filter((text) => accepts(compiled, text))
    expect(held.length).toBeGreaterThan(0)
    expect(held.filter((text) => matchAnswer(form, text)?.isMatch !== true)).toEqual([])
  } finally {
    await compiled.dispose()
  }
})

test('the JSON in a tag is found, with its schema', () => {
  const tag = JSON.stringify({ type: 'structural_tag', format: TAGS[0]?.format })
  const text = 'x <f=a>{"n": 1, "m": "}</f>"}</f> <f=b>7</f>'
  expect(matchAnswer({ kind: 'structural_tag', tag }, text)).toEqual({
    isMatch: true,
    parts: [
      { text: '{"n": 1, "m": "}</f>"}', schemas: [SCHEMA] },
      { text: '7', schemas: [SCHEMA] },
    ],
  })
})

test('a form that is not known is not checked', () => {
  const tag = JSON.stringify({ type: 'structural_tag', format: { type: 'of_tomorrow' } })
  expect(matchAnswer({ kind: 'structural_tag', tag }, 'x')).toBeNull()
  expect(matchAnswer({ kind: 'ebnf', grammar: 'root ::= "a" (= "b")' }, 'a')).toBeNull()
})

/** The text with a character or two gone, doubled, moved or of another kind. */
function changes(text: string, rng: Rng): string[] {
  const pick = (count: number): number => Math.floor(rng.uniform() * count)
  const others = Array.from('aZ09 \n"<>{}[]-+.,é🙂')
  return Array.from({ length: CHANGES }, () => {
    const characters = Array.from(text)
    for (let count = 0; count <= pick(2); count += 1) {
      const at = pick(characters.length + 1)
      const other = others[pick(others.length)] ?? ''
      const kinds: (() => void)[] = [
        () => characters.splice(at, 1),
        () => characters.splice(at, 0, characters[at] ?? other),
        () => characters.splice(at, 0, other),
        () => characters.splice(at, 1, other),
        () => characters.splice(at, 2, ...characters.slice(at, at + 2).reverse()),
      ]
      kinds[pick(kinds.length)]?.()
    }
    return characters.join('')
  })
}
