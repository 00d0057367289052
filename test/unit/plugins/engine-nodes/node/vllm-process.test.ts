import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { isForProcessors } from '#plugins/engine-nodes/node/vllm-process.js'

let directory: string
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'trainyard-vllm-process-'))
})
afterEach(() => rm(directory, { recursive: true, force: true }))

it.each([
  ['echo 0.33.0+cpu', true],
  ['echo 0.33.0', false],
  ['exit 1', true],
])(
  'a program of vLLM that runs "%s" when asked for its version is taken for the build for processors: %s',
  async (line, is) => {
    const command = join(directory, 'vllm')
    await writeFile(command, `#!/bin/sh\n${line}\n`, { mode: 0o755 })
    expect(await isForProcessors({ command, environment: process.env })).toBe(is)
  },
)
