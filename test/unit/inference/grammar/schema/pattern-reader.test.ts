/**
 * What regular expressions mean, asked of the JavaScript that they are written as; and what is none, or not kept.
 */
import { describe, expect, test } from 'vitest'
import { PatternError, PatternSyntaxError, parsePattern } from '#inference/grammar/schema/pattern-reader.js'
import { patternToEbnf } from '#inference/grammar/schema/pattern-writer.js'
import { patternToJavaScript } from '../../../../support/schemas/pattern-to-javascript.js'

const matches = (pattern: string, text: string): boolean => new RegExp(patternToJavaScript(pattern), 'u').test(text)

test.each<[string, readonly string[], readonly string[]]>([
  // escapes of signs that need none, as people write them
  [String.raw`^[A-Z]+\-\d+$`, ['AB-12'], ['AB12', '! ', String.raw`AB\-12`]],
  ['a\\@b\\:c\\_d\\"e\\!f\\ g\\#\\%\\&\\,\\;\\<\\=\\>\\~\\/', ['a@b:c_d"e!f g#%&,;<=>~/'], ['a@b']],
  // re.escape of Python
  ['a\\.b\\-c\\ d\\#\\&\\~\\*\\(\\)\\[\\]\\{\\}\\|\\^\\$\\+\\?\\\\', ['a.b-c d#&~*()[]{}|^$+?\\'], ['axb']],
  [String.raw`\é\я`, ['éя'], []],
  // signs that stand for themselves where they mean nothing else
  ['a{', ['a{'], []],
  ['a{b}]', ['a{b}]'], []],
  ['[a-]', ['a', '-'], ['b']],
  [String.raw`[\w-.]+`, ['a-.'], ['+']],
  [String.raw`[a-\d]`, ['a', '-', '5'], ['b']],
  ['[^]', ['\n', '😀'], ['', 'ab']],
  // anchors at the ends, wherever they are spelled
  ['^(a|b)$|^c', ['a', 'b', 'c'], ['ac']],
  [String.raw`\Aab\Z`, ['ab'], []],
  ['(?:^|x)a(?:$|y)', ['a', 'xa', 'ay', 'xay'], ['xxa']],
  ['^^a$$', ['a'], []],
  // groups and flags
  ['(?P<year>[0-9]{4})-(?<month>[0-9]{2})', ['2024-01'], ['2024-1']],
  ['(?i)straße|Ä', ['STRAßE', 'ä', 'straẞe'], ['STRASSE']],
  ['a(?i:b)c', ['abc', 'aBc'], ['Abc', 'abC']],
  ['(?i:a(?-i:b))', ['ab', 'Ab'], ['aB']],
  ['(?s)a.b', ['a\nb'], []],
  ['a.b', ['a😀b', 'axb'], ['a\nb', 'a\u2028b', 'ab']],
  ['(?m)^a$', ['a'], []],
  ['a(?#any of them)b', ['ab'], []],
  // characters by number
  [String.raw`\x41\u0451\u{1F600}\x{1F60A}\U0001F60B\ud83d\ude0c`, ['Aё😀😊😋😌'], []],
  [String.raw`[\ud83d\ude00-\ud83d\ude0e]{2}`, ['😀😎'], ['😀']],
  [String.raw`[^\ud800-\udfff]`, ['a', '😀'], []],
  [String.raw`\p{IsGreek}\pL\p{^L}\p{Han}`, ['ωa1一'], ['aa1一']],
  // how often
  ['a{2}b{1,}c{0,1}d{0,0}', ['aab', 'aabbbc'], ['ab', 'aabd']],
  ['(?:a{2}){3}', ['aaaaaa'], ['aaaaa']],
  ['(a*)*|(b?){2,3}', ['', 'aaa', 'bbb'], ['ab', 'bbbb']],
  ['', [''], ['a']],
])('%s', (pattern, taken, refused) => {
  expect({ taken: taken.filter((text) => matches(pattern, text)) }).toEqual({ taken })
  expect(refused.filter((text) => matches(pattern, text))).toEqual([])
})

describe('no regular expression in any language', () => {
  test.each([
    ['(a', 'does not close a group'],
    ['a)', 'closes a group that it did not open'],
    ['[a', 'ends too early'],
    ['a\\', 'ends too early'],
    ['*a', 'has nothing to repeat'],
    ['a|+', 'has nothing to repeat'],
    ['a**', 'repeats what is repeated already'],
    ['a{3,1}', 'ends before it begins: {3,1}'],
    ['[z-a]', 'ends before it begins'],
    ['(?y', 'no known kind'],
    ['(?=a)(', 'does not close a group'],
  ])('%s %s', (pattern, words) => {
    expect(() => parsePattern(pattern)).toThrow(PatternSyntaxError)
    expect(() => parsePattern(pattern)).toThrow(words)
  })
})

describe('not kept', () => {
  test.each([
    ['a(?=b)', 'looks around'],
    ['(?<!a)b', 'looks around'],
    [String.raw`(a)\1`, String.raw`uses "\1"`],
    ['(?P<a>x)(?P=a)', 'refers back'],
    [String.raw`\bword\b`, String.raw`uses "\b"`],
    ['(?>a)b', 'atomic group'],
    ['a++', 'possessive'],
    ['(?R)', 'flag "R"'],
    ['(?(1)a|b)', 'condition'],
    ['(?x)a b', 'flag "x"'],
    ['b^a', 'has "^" in its middle'],
    ['x(^a)', 'has "^" in its middle'],
    ['(a$)b', 'has "$" in its middle'],
    ['(^a)*', 'has "^" in its middle'],
    ['(a|^)+b', 'has "^" in its middle'],
    ['^*a', 'repeats an anchor'],
    ['[]a]', 'class that begins with "]"'],
    ['[[:alpha:]]', 'has "[:" in a class'],
    ['[a&&b]', 'has "&&" in a class'],
    ['a{,3}', 'without its beginning: write {0,n}'],
    ['a{0,99999999999}', 'more than 1000000 times'],
    [String.raw`\p{Nope}`, 'a property of characters that is not known'],
    [String.raw`\xZZ`, 'without the number of a character'],
    [String.raw`\Qa\E`, String.raw`uses "\Q"`],
    [String.raw`\01`, String.raw`uses "\0"`],
  ])('%s: %s', (pattern, words) => {
    expect(() => parsePattern(pattern)).toThrow(PatternError)
    expect(() => parsePattern(pattern)).not.toThrow(PatternSyntaxError)
    expect(() => parsePattern(pattern)).toThrow(words)
  })
})

test('classes are written with as few sequences of bytes as there can be', () => {
  const classes: string[] = []
  patternToEbnf('[а-яё][à-ü]', (ranges) => {
    classes.push(ranges.map(([from, to]) => `${from}-${to}`).join())
    return 'x'
  })
  expect(classes).toEqual(['1072-1103,1105-1105', '224-252'])
})
