/**
 * A folder whose files name another end than its template writes behind answers: an answer ends where the template ends it. Spark's own
 * weights, in a real engine.
 */
import { copyFile, mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { JsonObject } from '#base/util/json.js'
import { sparkDirectory } from '#model/built-in/spark.js'
import { createTestService } from '../../support/service/create-test-service.js'
import { temporaryDirectory } from '../../support/temporary-directory.js'

test('an answer ends at the token behind assistant turns, though only <|endoftext|> is said to end', async () => {
  const spark = sparkDirectory()
  const sourcePath = join(await temporaryDirectory(), 'eos')
  await mkdir(sourcePath)
  const json = async (name: string): Promise<JsonObject> =>
    JSON.parse(await readFile(join(spark, name), 'utf8')) as JsonObject
  await copyFile(join(spark, 'model.safetensors'), join(sourcePath, 'model.safetensors'))
  await copyFile(join(spark, 'tokenizer.json'), join(sourcePath, 'tokenizer.json'))
  const changed = {
    'tokenizer_config.json': { ...(await json('tokenizer_config.json')), eos_token: '<|endoftext|>' },
    'config.json': { ...(await json('config.json')), eos_token_id: 0 },
    'generation_config.json': { eos_token_id: 0 },
  }
  for (const [name, value] of Object.entries(changed)) await writeFile(join(sourcePath, name), JSON.stringify(value))

  const service = await createTestService({
    scripted: false,
    threads: 1,
    baseModels: [{ name: 'eos', sourcePath }],
  })
  try {
    const { body } = await service.json<{ choices: { finish_reason: string }[]; usage: { completion_tokens: number } }>(
      '/v1/chat/completions',
      { json: { model: 'eos', messages: [{ role: 'user', content: 'Hi' }], temperature: 0, max_tokens: 200 } },
    )
    expect(body.choices[0]?.finish_reason).toBe('stop')
    expect(body.usage.completion_tokens).toBeLessThan(200)
  } finally {
    await service.dispose()
  }
})
