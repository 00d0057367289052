/**
 * Rules that the grammar compiler cannot make from a JSON Schema, written into the grammar it makes of it.
 *
 * In these places the compiler is given a marker (`json-schema.ts`): a constant where a bounded number stands, another name where the
 * name of a property needs escapes, a reference where additional properties stand. In the grammar's text the markers are then replaced
 * by rules of our own. As of xgrammar 0.1.27.
 */
import { append } from '#base/util/lists.js'
import { checkHeap } from '../heap-limit.js'
import { classAlternatives, complement, plainPart } from './character-class.js'

export interface SchemaPatches {
  readonly constants: readonly ConstantPatch[]
  readonly others: readonly OthersPatch[]
}

/** A rule with others that it needs, which call themselves and each other `OWN_NAME` and more. */
export interface OwnRule {
  readonly rule: string
  readonly helpers?: readonly string[]
}

/** The constant, or the name of a property, `mark` stands for what matches `rule`. */
export interface ConstantPatch extends OwnRule {
  readonly mark: string
}

/** What a rule with helpers calls itself: in a grammar it gets a number. */
export const OWN_NAME = 'own_name'

/** Additional properties whose schema is the definition `mark` must not be called like those listed. */
export interface OthersPatch {
  readonly mark: string
  readonly names: readonly string[]
}

/** The rule of a text, which is JSON. */
export function literalRule(json: string): string {
  return `"${json.replace(/["\\]/g, (character) => `\\${character}`)}"`
}

/**
 * Rules of every JSON grammar that are ours: numbers that a 64-bit float holds.
 */
const OWN_BASICS = [
  ['basic_integer', '"-"? ("0" | [1-9] [0-9]{0,17})'],
  ['basic_number', String.raw`"-"? ("0" | [1-9] [0-9]{0,17}) ("." [0-9]{1,17})? ([eE] [+\-]? [0-9]{1,2})?`],
] as const

/**
 * The grammar of a marked schema, its marks replaced.
 *
 * @throws {Error} if a mark is not where it is expected
 */
export function patchGrammar(ebnf: string, { constants, others }: SchemaPatches): string {
  // replacing copies it
  checkHeap(2 * ebnf.length)
  let text = OWN_BASICS.reduce((before, [name, rule]) => {
    const line = new RegExp(`^${name} ::= .*$`, 'm')
    if (!line.test(before)) throw new Error(`grammar of a schema has no rule "${name}"`)
    return before.replace(line, () => `${name} ::= ${rule}`)
  }, ebnf)
  const rules: string[] = []
  // equal rules are compiled once
  const firstOf = new Map<string, number>()
  const firstLike = ({ rule, helpers = [] }: ConstantPatch, index: number): number => {
    const key = [rule, ...helpers].join('\n')
    const first = firstOf.get(key) ?? index
    firstOf.set(key, first)
    return first
  }
  const ruleOf = new Map(constants.map((patch, index) => [patch.mark, `own_rule_${firstLike(patch, index)}`]))
  const stem = constants[0]?.mark.replace(/\d+$/, '') ?? ''
  // a mark in a definition that nothing refers to is not found
  text = text.replace(new RegExp(String.raw`"\\"(${stem}\d+)\\""`, 'g'), (found, mark) => ruleOf.get(mark) ?? found)
  for (const [index, patch] of constants.entries()) {
    if (firstLike(patch, index) !== index) continue
    const { rule, helpers = [] } = patch
    const own = `own_rule_${index}`
    const named = (text: string): string => (helpers.length === 0 ? text : text.replaceAll(OWN_NAME, own))
    append(rules, [`${own} ::= ${named(rule)}`, ...helpers.map(named)])
  }
  for (const [index, { mark, names }] of others.entries()) {
    const name = `other_name_${index}`
    const renamed = withOtherNames(text, mark, name)
    if (renamed === null) continue
    text = renamed
    for (const rule of otherNames(name, names)) rules.push(rule)
    checkHeap(text.length)
  }
  checkHeap(rules.reduce((sum, rule) => sum + rule.length, text.length))
  return `${text}\n${rules.join('\n')}\n`
}

const BLANK = String.raw`(?:\[ \\n\\t\]\* )?`

/** A property's name is `basic_string` and stands right before the rule of its value. */
function withOtherNames(text: string, mark: string, name: string): string | null {
  const rule = `defs_${mark}`
  const holders = [...text.matchAll(/^(\S+) ::= (\S+)$/gm)].filter(([, , body]) => body === rule)
  if (holders.length === 0 && !new RegExp(`^${rule} ::=`, 'm').test(text)) return null
  const values = [rule, ...holders.map(([, holder]) => holder ?? '')]
  const places = new RegExp(`basic_string (${BLANK}":" ${BLANK})(${values.join('|')})(?![A-Za-z0-9_])`, 'g')
  if (!places.test(text)) throw new Error(`grammar of a schema has no place for the names of additional properties`)
  return text.replace(places, `${name} $1$2`)
}

const QUOTE = String.raw`"\""`

/** Rules of a JSON string without escapes that is none of these names: a tree of what the name may still become. */
function otherNames(name: string, names: readonly string[]): string[] {
  interface Node {
    readonly children: Map<string, Node>
    isName: boolean
  }
  const root: Node = { children: new Map(), isName: false }
  // a name that JSON writes with an escape cannot be met
  for (const listed of names.filter((each) => JSON.stringify(each) === `"${each}"`)) {
    let node = root
    for (const character of listed) {
      checkHeap()
      const next = node.children.get(character) ?? { children: new Map(), isName: false }
      node.children.set(character, next)
      node = next
    }
    node.isName = true
  }
  const rules: string[] = []
  let count = 0
  const write = (node: Node): string => {
    checkHeap()
    const own = `${name}_${count++}`
    const begun = [...node.children.keys()].map((character) => character.codePointAt(0) ?? 0)
    const others = plainPart(complement(begun.map((code) => [code, code])))
    const options = [
      ...(node.isName ? [] : [QUOTE]),
      `(${classAlternatives(others).join(' | ')}) ${name}_rest`,
      ...[...node.children].map(([character, child]) => `"${character}" ${write(child)}`),
    ]
    rules.push(`${own} ::= ${options.join(' | ')}`)
    return own
  }
  rules.push(String.raw`${name} ::= "\"" ${write(root)}`)
  rules.push(`${name}_rest ::= ${QUOTE} | (${classAlternatives(plainPart([[0, 0x10ffff]])).join(' | ')}) ${name}_rest`)
  return rules
}
