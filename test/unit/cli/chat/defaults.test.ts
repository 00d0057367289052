/** When an answer repeats itself, and how a base model's files say that it is sampled. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { untilRepeating } from '#cli/chat/defaults.js'
import type { ChatChunk } from '#contract/wire/chat-completions.js'
import { isRepeating } from '#contract/wire/talk-words.js'
import { readOwnSampling } from '#model/inspection/inspect.js'

test.each([
  ['so it is. '.repeat(20), true],
  [`A good beginning. ${'ha'.repeat(100)}`, true],
  [`${'One line, said at some length, which comes again.\n'.repeat(4)}`, true],
  ['no '.repeat(10), false],
  [Array.from({ length: 60 }, (_, i) => `- row ${i}: ${i * i}`).join('\n'), false],
  ['| --- | --- | --- | --- |\n| a | b | c | d |', false],
  ['so it is. '.repeat(20).concat('But then it ended.'), false],
])('%j repeats itself: %s', (text, isSo) => {
  expect(isRepeating(text)).toBe(isSo)
})

test('chunks end with the one that repeats for the first time, and it is told once', async () => {
  async function* circles(): AsyncGenerator<ChatChunk> {
    for (let i = 0; i < 100; i += 1)
      yield { id: 'c', choices: [{ index: 0, delta: { content: 'so it is. ' }, finish_reason: null }] } as never
  }
  let told = 0
  const seen: ChatChunk[] = []
  for await (const chunk of untilRepeating(circles(), () => (told += 1))) seen.push(chunk)
  expect([told, seen.length, seen.at(-1)?.choices[0]?.finish_reason]).toEqual([1, 16, 'stop'])
})

test('generation_config.json says how a model is sampled, where it says anything that is usable', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'trainyard-sampling-'))
  try {
    const read = async (config: unknown) => {
      writeFileSync(
        join(folder, 'generation_config.json'),
        typeof config === 'string' ? config : JSON.stringify(config),
      )
      return await readOwnSampling(folder)
    }
    expect(await readOwnSampling(folder)).toBeNull()
    expect(await read({ do_sample: true, temperature: 0.6, top_p: 0.95, top_k: 20, eos_token_id: 2 })).toEqual({
      temperature: 0.6,
      top_p: 0.95,
      top_k: 20,
    })
    expect(await read({ temperature: 0, top_p: 7, top_k: 1.5 })).toBeNull()
    expect(await read({ do_sample: false, temperature: 0.6 })).toBeNull()
    expect(await read('{')).toBeNull()
    expect(await read('null')).toBeNull()
  } finally {
    rmSync(folder, { recursive: true, force: true, maxRetries: 20 })
  }
})
