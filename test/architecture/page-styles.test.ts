/** Styles of the page: sizes of type and distances are of one scale, which stands in one place. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'

const FOLDER = join(import.meta.dirname, '../../src/plugins/page/browser/style')
const SCALED = /(?:^|[\s{;])(font-size|font|gap|row-gap|column-gap|padding(?:-[a-z]+)*|margin(?:-[a-z]+)*):([^;{}]*);/g
/** Lengths of the page's own; hairlines, and what is measured in the text it stands in, are not. */
const LITERAL = /(?<![\w.-])-?(?:\d*\.)?\d+(?:rem|(?<!1)px|pt|ch)\b/

test.each(readdirSync(FOLDER))('%s has no size or distance beside the scale', (name) => {
  const text = readFileSync(join(FOLDER, name), 'utf8').replaceAll(/\/\*.*?\*\//gs, '')
  const literal = [...text.matchAll(SCALED)].filter(([, , value = '']) => LITERAL.test(value))
  expect(literal.map(([rule]) => rule.trim())).toEqual([])
  for (const [, variable = ''] of text.matchAll(/var\((--(?:step|space)-[\w-]+)\)/g)) {
    expect(readFileSync(join(FOLDER, 'base.css'), 'utf8'), variable).toContain(`${variable}:`)
  }
})
