/** `base-models add` of what is an adapter: each of its files is known by name, and what is missing is said before anything is sent. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { runCli } from '../../../support/service/run-cli.js'
import { scriptedService } from '../../../support/service/scripted-service.js'

const root = mkdtempSync(join(tmpdir(), 'trainyard-adapter-'))
afterAll(() => rmSync(root, { recursive: true, force: true }))

const [CONFIG, WEIGHTS, PICKLE] = ['adapter_config.json', 'adapter_model.safetensors', 'adapter_model.bin']

test.each<readonly [string, readonly string[], string, readonly string[]]>([
  ['a folder with a pickle', [CONFIG, PICKLE], '', ['adapter_model.bin is a pickle', 'safe_serialization=True']],
  ['the pickle itself', [CONFIG, PICKLE], PICKLE, ['adapter_model.bin is a pickle', 'safe_serialization=True']],
  ['weights alone', [WEIGHTS], '', ['adapter_config.json is missing']],
  ['a configuration alone', [CONFIG], '', ['adapter_model.safetensors is missing']],
  [
    'a whole folder',
    [CONFIG, WEIGHTS],
    '',
    ['is an adapter, expected --base-model to merge it into', '--from-adapter'],
  ],
  ['the weights of a whole folder', [CONFIG, WEIGHTS], WEIGHTS, ['is an adapter, expected --base-model']],
])('%s', async (_name, files, given, said) => {
  const folder = mkdtempSync(join(root, 'case-'))
  for (const name of files) writeFileSync(join(folder, name), '{}')
  const service = scriptedService({})
  const { stderr, exitCode } = await runCli(['base-models', 'add', join(folder, given)], { fetch: service.fetch })
  for (const words of said) expect(stderr).toContain(words)
  expect([exitCode, service.requests]).toEqual([2, []])
})
