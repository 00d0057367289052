/** What small templates come to, against Python's Jinja as transformers sets it up (`test/support/model/make-rendering-digests.py`). */
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { createChatTemplate } from '#model/text/chat-template.js'

const file = new URL('../../../fixtures/template-snippets.json', import.meta.url)
const snippets: readonly (readonly [source: string, expected: string])[] = JSON.parse(readFileSync(file, 'utf8'))

test.each(snippets)('%s', (source, expected) => {
  expect(createChatTemplate(source, { controlTokens: [], tokenVariables: {} }).render({ messages: [] }).text).toBe(
    expected,
  )
})
