/**
 * Files we write, read by the library that defines the format: PyPI's `safetensors` with numpy.
 *
 * Needs a Python environment in `.cache/gguf-venv` (see `test/support/model/gguf-goldens.py`, plus `pip install safetensors`);
 * skipped where there is none.
 */
import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { createAdapter, writeAdapter } from '../../../src/model/weights/adapter.js'
import { readSafetensors, writeSafetensors } from '../../../src/model/weights/safetensors.js'
import type { HostTensor } from '../../../src/numerics/tensor/host-tensor.js'
import { temporaryDirectory } from '../../support/temporary-directory.js'

const PYTHON = join(import.meta.dirname, '../../../.cache/gguf-venv/bin/python')

const DESCRIBE = `
import json, sys
from safetensors import safe_open
with safe_open(sys.argv[1], 'np') as file:
    tensors = {k: [str(file.get_tensor(k).dtype), file.get_tensor(k).shape, file.get_tensor(k).ravel().tolist()] for k in file.keys()}
    print(json.dumps([file.metadata(), tensors], sort_keys=True))
`

const REWRITE = `
import sys
from safetensors.numpy import load_file, save_file
save_file(load_file(sys.argv[1]), sys.argv[2], metadata={'format': 'pt'})
`

function python(program: string, ...args: string[]): string {
  return execFileSync(PYTHON, ['-c', program, ...args], { encoding: 'utf8' })
}

test.skipIf(!existsSync(PYTHON))('safetensors reads what we write, and we read what it writes', async () => {
  const directory = await temporaryDirectory()
  const [ours, theirs] = [join(directory, 'ours.safetensors'), join(directory, 'theirs.safetensors')]
  const tensors = new Map<string, HostTensor>([
    ['floats', { dtype: 'float32', shape: [2, 2], data: Float32Array.of(1, -2, 0.5, 3e38) }],
    ['halves', { dtype: 'float16', shape: [1], data: Uint16Array.of(0x3e00) }],
    ['bytes', { dtype: 'uint8', shape: [3], data: Uint8Array.of(1, 2, 3) }],
    ['integers', { dtype: 'int64', shape: [], data: BigInt64Array.of(-5n) }],
  ])
  await writeSafetensors(ours, tensors, { format: 'pt' })
  expect(JSON.parse(python(DESCRIBE, ours))).toEqual([
    { format: 'pt' },
    {
      floats: ['float32', [2, 2], [1, -2, 0.5, Math.fround(3e38)]],
      halves: ['float16', [1], [1.5]],
      bytes: ['uint8', [3], [1, 2, 3]],
      integers: ['int64', [], [-5]],
    },
  ])
  python(REWRITE, ours, theirs)
  const { tensors: read, metadata } = await readSafetensors(theirs)
  expect(new Map([...read].sort())).toEqual(new Map([...tensors].sort()))
  expect(metadata.get('format')).toBe('pt')
})

test.skipIf(!existsSync(PYTHON))('safetensors reads an adapter under the keys of PEFT', async () => {
  const directory = await temporaryDirectory()
  const module = { path: 'model.layers.0.mlp.up_proj', outputSize: 3, inputSize: 4 }
  await writeAdapter(directory, createAdapter([module], { rank: 2, alpha: 4, seed: 1 }), { baseModelName: 'base' })
  const [, tensors] = JSON.parse(python(DESCRIBE, join(directory, 'adapter_model.safetensors'))) as [
    unknown,
    Record<string, [string, number[], number[]]>,
  ]
  const key = 'base_model.model.model.layers.0.mlp.up_proj'
  expect(Object.keys(tensors)).toEqual([`${key}.lora_A.weight`, `${key}.lora_B.weight`])
  expect(tensors[`${key}.lora_A.weight`].slice(0, 2)).toEqual(['float32', [2, 4]])
  expect(tensors[`${key}.lora_B.weight`]).toEqual(['float32', [3, 2], [0, 0, 0, 0, 0, 0]])
})
