/**
 * Colours are written down once: the documentation and the page take them from the palette.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { PALETTE } from '#base/palette.js'
import { packageRoot } from '#base/util/package-root.js'
import { STYLE } from '#plugins/docs/page.js'

const FOLDER = join(packageRoot(), 'src/plugins/page/browser/style')

test('no style sheet has a colour of its own', () => {
  for (const name of readdirSync(FOLDER)) {
    expect(readFileSync(join(FOLDER, name), 'utf8'), name).not.toMatch(/#[0-9a-f]{3,8}\b/i)
  }
  const [, rules = ''] = /^:root \{([^}]*)\}/.exec(STYLE) ?? []
  expect(STYLE.replace(rules, '')).not.toMatch(/#[0-9a-f]{3,8}\b/i)
})

test('what a style sheet names is in the palette or its own', () => {
  const sheets = [STYLE, ...readdirSync(FOLDER).map((name) => readFileSync(join(FOLDER, name), 'utf8'))]
  const own = new Set(sheets.flatMap((text) => [...text.matchAll(/--([\w-]+):/g)].map(([, name]) => name ?? '')))
  for (const text of sheets) {
    for (const [, name = ''] of text.matchAll(/var\(--([\w-]+)\)/g)) {
      // the number of columns is set by the page of Play
      expect(name in PALETTE || own.has(name) || name === 'columns', name).toBe(true)
    }
  }
})
