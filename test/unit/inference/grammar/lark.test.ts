/**
 * What of Lark's notation is refused, by name and line, and what is taken for Lark at all.
 */
import { expect, test } from 'vitest'
import { isLark } from '#formats/grammars/lark.js'
import { larkToEbnf } from '#inference/grammar/lark.js'

test.each([
  ['root ::= "a"', false],
  ['# EBNF\nroot ::= x\nx ::= "::"', false],
  ['start: "a"', true],
  ['start: NAME "::=" NAME', true],
  ['?start: "a"', true],
  ['nothing', true],
])('%j', (grammar, expected) => {
  expect(isLark(grammar)).toBe(expected)
})

test.each([
  ['start: "a"\n\nA.2: "b"', 'line 3: "A" has a priority, which is not supported'],
  ['start: "a"\npair{x}: x x', 'line 2: "pair" is a template, which is not supported'],
  ['start: pair{"a"}', 'line 1: "pair" is a template, which is not supported'],
  ['start: A\n%declare A', 'line 2: %declare is not supported'],
  ['%override start: "a"', 'line 1: %override is not supported'],
  ['start: A\n%import common.NOPE -> A', 'line 2: %import common.NOPE is not known, of "common" there are DIGIT, '],
  ['start: A\n%import python (A)', 'line 2: %import python.A is not known'],
  ['start: A\n%import .other.A', 'line 2: %import .other.A is not known'],
  ['start: "a"\n  | other', 'line 2: "other" is defined nowhere'],
  ['start: "a"\n%ignore WS', 'line 2: "WS" is defined nowhere'],
  ['start: "a"\nstart: "b"', 'line 2: "start" is defined twice'],
  ['start: A\nA: b\nb: "x"', 'line 2: "b" is a rule and cannot be part of a terminal'],
  ['start: /a(?=b)/', 'line 1: /a(?=b)/ looks around, which is not supported'],
  ['start: /(?<!a)b/', 'line 1: /(?<!a)b/ looks around, which is not supported'],
  [String.raw`start: /(a)\1/`, String.raw`line 1: /(a)\1/ uses "\1", which is not supported`],
  [String.raw`start: /\bword/`, String.raw`line 1: /\bword/ uses "\b", which is not supported`],
  ['start: /".*?"/', 'line 1: /".*?"/ is lazy, which is not supported: name what may not come, like [^"]*'],
  ['start: /^a$/', 'line 1: /^a$/ uses "^", which is not supported'],
  ['start: /a/x', 'line 1: /a/x has the flag "x", which is not supported'],
  ['start: /[]a]/', 'line 1: /[]a]/ has a class that begins with "]": write "\\]"'],
  ['start: /a{,3}/', 'line 1: /a{,3}/ has a repetition without its beginning: write {0,n}'],
  ['start: /(a/', 'line 1: /(a/ does not close a group'],
  ['start: "z".."a"', 'line 1: "z".."a" is no range of characters'],
  ['start: "ab".."c"', 'line 1: "ab".."c" is no range of characters'],
  ['start: "a"~3..2', 'line 1: ~ 3..2 ends before it begins'],
  ['start: "a"~', 'line 1: expected a number of times, got the end'],
  ['start: ("a"', 'line 1: expected ")", got the end'],
  ['start: "a")', 'line 1: expected the name of a rule, got ")"'],
  ['start: "a', String.raw`line 1: cannot be read from "\"a"`],
  ['start "a"', String.raw`line 1: expected ":", got "\"a\""`],
  ['nothing', 'line 1: expected ":", got the end'],
  ['// nothing', 'line 1: there is no rule'],
])('%j is refused', (grammar, reason) => {
  expect(() => larkToEbnf(grammar)).toThrow(`Failed to convert the grammar from Lark to EBNF: ${reason}`)
})
