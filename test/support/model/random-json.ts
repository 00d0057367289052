/** Random JSON as models and people write it: numbers of every form, and, where asked, odd spacing, escapes and keys that occur twice. */
import type { Rng } from '#base/util/rng.js'

const NUMBERS = [
  ...[
    '0',
    '5',
    '-1',
    '5.0',
    '1e2',
    '-0.0',
    '0.1',
    '1e-7',
    '1.5',
    '2512292042121000001',
    '-9223372036854775808',
    '1e22',
  ],
  ...['9007199254740993', '100000000000000000000', '1.0e0', '3.140'],
]
const TEXTS = ['', 'Oslo', 'a "b"', '{5.0', 'Zürich 😀', 'x\\y', 'tools', '1e2', "it's"]

export interface RandomJsonOptions {
  /** As nobody's serializer writes it, but JSON all the same. */
  readonly isSpaced: boolean
  /** Default 3. */
  readonly depth?: number
}

export function randomJson(rng: Rng, options: RandomJsonOptions): string {
  const { isSpaced, depth = 3 } = options
  const blank = (): string => (isSpaced ? ['', '', ' ', '  ', '\n'][rng.integer(5)]! : '')
  const kind = rng.integer(depth === 0 ? 4 : 6)
  if (kind === 0) return ['true', 'false', 'null'][rng.integer(3)]!
  // written as JSON.stringify does where nothing odd is wanted
  if (kind === 1 || kind === 2) return NUMBERS[rng.integer(isSpaced ? NUMBERS.length : NUMBERS.length - 1)]!
  if (kind === 3) return randomText(rng, isSpaced)
  const inner = { isSpaced, depth: depth - 1 }
  const count = rng.integer(4)
  if (kind === 4) {
    return `[${Array.from({ length: count }, () => blank() + randomJson(rng, inner) + blank()).join(',')}]`
  }
  return randomObject(rng, inner)
}

export function randomObject(rng: Rng, options: RandomJsonOptions): string {
  const { isSpaced } = options
  const blank = (): string => (isSpaced ? ['', '', ' ', '\t'][rng.integer(4)]! : '')
  const items = Array.from({ length: rng.integer(5) }, (_, i) => {
    const key = isSpaced && rng.integer(5) === 0 ? '"a"' : JSON.stringify(`${'abcd'[i]}${TEXTS[rng.integer(4)]}`)
    return `${blank()}${key}${blank()}:${blank()}${randomJson(rng, options)}${blank()}`
  })
  return `{${items.join(',')}}`
}

function randomText(rng: Rng, isOdd: boolean): string {
  const text = JSON.stringify(TEXTS[rng.integer(TEXTS.length)]!)
  return isOdd ? text.replace(/[Oxt]/g, (c) => `\\u00${c.charCodeAt(0).toString(16)}`) : text
}
