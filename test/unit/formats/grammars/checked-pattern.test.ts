/** Regular expressions as other languages spell them, read by JavaScript's engine. */
import { expect, test } from 'vitest'
import { checkedPattern } from '#formats/grammars/checked-pattern.js'

test.each([
  ['^[A-Z]+\\-\\d+$', 'AB-12', 'AB12'],
  ['^(?:a\\@b\\ \\_[\\w\\-.])$', 'a@b _-', 'a@b_-'],
  ['^(?:(?i)straße)$', 'STRAßE', 'x'],
  ['(?s)^a.b$', 'a\nb', 'ab'],
  ['\\Aa{\\Z', 'a{', 'a'],
  ['^(?P<y>\\d{4})$', '2024', '20'],
  ['^[а-я]\\-$', 'я-', '\\-'],
])('%s', (pattern, taken, refused) => {
  expect([checkedPattern(pattern).test(taken), checkedPattern(pattern).test(refused)]).toEqual([true, false])
})

test('what is none stays one', () => {
  expect(() => checkedPattern('(a')).toThrow(SyntaxError)
})
