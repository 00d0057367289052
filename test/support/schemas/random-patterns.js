/**
 * Random regular expressions, each with texts: some made to match, some changed, some drawn from the same letters.
 *
 * Written in the part of the notation that JavaScript's flag `u` and Python read alike, so that JavaScript says which texts match.
 */

/** Of one to four bytes, of scripts with and without case, on both sides of where lengths of UTF-8 change. */
const LETTERS = Array.from('abxyzABZ019_- .,"\\/\n\té߿ࠀаёЯя一龥\ud7ff\ue000\uffef😀😊😎🀀\u{10ffff}')
const RANGES = ['а-яё', '一-龥', 'à-ü', '😀-😎', 'a-z', '0-9', '\u{ffff}-\u{10001}', '~-\u{85}', 'ࠀ-\u{d7ff}', 'B-ё']
const ESCAPES = ['\\d', '\\D', '\\w', '\\W', '\\s', '\\S']
const PROPERTIES = ['\\p{Lu}', '\\P{Lu}', '\\p{Script=Cyrillic}', '\\p{Nd}']

/** A class of characters, as expressions and grammars spell it. */
export function randomClass(random) {
  return randomParts(random).characterClass()
}

/** @param random draws from 0 to 1 */
export function randomPattern(random) {
  return randomParts(random).alternatives(2)
}

function randomParts(random) {
  const below = (count) => Math.floor(random() * count)
  const pick = (list) => list[below(list.length)]
  const escaped = (letter) => (/[\\^$.*+?()[\]{}|/-]/.test(letter) ? `\\${letter}` : letter)
  const plain = (letter) => (letter === '-' ? '-' : escaped(letter))

  function characterClass() {
    const isNegated = random() < 0.3
    const parts = Array.from({ length: 1 + below(3) }, () => {
      const kind = random()
      if (kind < 0.4) return pick(RANGES)
      // with a class and what is not in it no character would be left
      if (kind < 0.6 && !isNegated) return pick(ESCAPES)
      return kind < 0.65 && !isNegated ? pick(PROPERTIES) : escaped(pick(LETTERS))
    })
    return `[${isNegated ? '^' : ''}${parts.join('')}]`
  }

  function atom(depth) {
    const kind = random()
    if (kind < 0.35) return plain(pick(LETTERS))
    if (kind < 0.6) return characterClass()
    if (kind < 0.7) return '.'
    if (kind < 0.75) return pick(ESCAPES)
    if (kind < 0.78) return pick(['[\\s\\S]', '\\u{1f600}', '\\u0451', '\\x41', '\\n'])
    return depth === 0 ? plain(pick(LETTERS)) : `(${pick(['', '?:'])}${alternatives(depth - 1)})`
  }

  function sequence(depth) {
    return Array.from({ length: below(4) + (depth === 2 ? 1 : 0) }, () => {
      const kind = random()
      const times = kind < 0.6 ? '' : pick(['?', '*', '+', '{2}', '{1,3}', '{0,2}', '{2,}', '*?', '+?'])
      return atom(depth) + times
    }).join('')
  }

  function alternatives(depth) {
    return Array.from({ length: 1 + (random() < 0.3 ? below(3) : 0) }, () => sequence(depth)).join('|')
  }

  return { characterClass, alternatives }
}

/** Texts of few letters; those of the pattern itself come more often. */
export function randomTexts(random, pattern, count) {
  const below = (length) => Math.floor(random() * length)
  const own = Array.from(pattern).filter((letter) => !/[\\^$.*+?()[\]{}|]/.test(letter))
  const letters = [...LETTERS, ...own, ...own, ...own]
  return [
    '',
    ...Array.from({ length: count }, () =>
      Array.from({ length: below(5) }, () => letters[below(letters.length)]).join(''),
    ),
  ]
}
