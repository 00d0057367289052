/**
 * No call's arguments are spread from a list that data makes: they lie on the stack, and some 120,000 of them (a long row has more
 * tokens) end in `RangeError: Maximum call stack size exceeded`. `append`, `maxOf` and `minOf` of `src/base/util/lists.ts` take lists of
 * any length; array literals may be spread into. What a function was itself called with may be passed on.
 */
import path from 'node:path'
import ts from 'typescript'
import { describe, expect, test } from 'vitest'
import { readSourceTree } from './source-tree.js'

/** Lists that are provably short, as they are spelled, and why. */
const SHORT: Readonly<Record<string, string>> = {
  'src/plugins/page/browser/data/train/request.ts: String.fromCharCode(...bytes.subarray(i, i + 8192))': 'cut to 8,192',
}

/** Calls whose arguments are spread from anything but the parameters of a function around them. */
function spreadCalls(file: string, text: string): string[] {
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true)
  const found: string[] = []
  const visit = (node: ts.Node, passedOn: ReadonlySet<string>): void => {
    const known = ts.isFunctionLike(node) ? new Set([...passedOn, ...restParameters(node)]) : passedOn
    if (isSpread(node, known)) found.push(`${file}: ${node.getText().replaceAll(/\s+/g, ' ')}`)
    ts.forEachChild(node, (child) => visit(child, known))
  }
  visit(source, new Set())
  return found
}

function restParameters({ parameters }: ts.SignatureDeclaration): readonly string[] {
  return parameters.flatMap(({ dotDotDotToken, name }) => (dotDotDotToken === undefined ? [] : [name.getText()]))
}

function isSpread(node: ts.Node, passedOn: ReadonlySet<string>): boolean {
  if (!ts.isCallExpression(node) && !ts.isNewExpression(node)) return false
  return node.arguments?.some((each) => ts.isSpreadElement(each) && !passedOn.has(each.expression.getText())) === true
}

describe('arguments of calls', () => {
  test('are spread from no list that data makes', () => {
    const found = readSourceTree().flatMap((file) => spreadCalls(file.path, file.text))
    const listed = Object.keys(SHORT)
    expect(
      found.filter((call) => !listed.includes(call)),
      'use append, maxOf or minOf of #base/util/lists.js, or a loop',
    ).toEqual([])
    expect(listed.filter((call) => !found.includes(call))).toEqual([])
  })

  test('are found however they are spelled', () => {
    const of = (code: string): number => spreadCalls(path.posix.join('src', 'x.ts'), code).length
    expect(of('list.push(...more)')).toBe(1)
    expect(of('Math.max(0, ...rows.map(({ length }) => length))')).toBe(1)
    expect(of('new Set(...lists)')).toBe(1)
    expect(of('maybe?.push(...(more ?? []))')).toBe(1)
    expect(of('const f = (rows: number[]) => Math.min(...rows)')).toBe(1)
    expect(of('const all = [...one, ...other]; list.push([...all])')).toBe(0)
    expect(of('const run = (...asked: string[]) => () => ask(...asked)')).toBe(0)
  })
})
