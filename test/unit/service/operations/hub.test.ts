/**
 * Which addresses count as public, and which files of a repository make a base model.
 */
import { describe, expect, test } from 'vitest'
import { isPublicAddress } from '#base/util/public-address.js'
import { chooseHubFiles } from '#service/operations/base-models/hub-files.js'

test('only addresses of the open internet are public', () => {
  const inside = [
    ...[
      '0.0.0.0',
      '10.1.2.3',
      '100.64.0.1',
      '127.0.0.1',
      '127.255.0.1',
      '169.254.169.254',
      '172.16.0.1',
      '172.31.255.255',
    ],
    ...['192.168.1.1', '198.18.0.1', '224.0.0.1', '255.255.255.255', '203.0.113.7'],
    ...[
      '::',
      '::1',
      '::ffff:10.0.0.1',
      '::ffff:8.8.8.8',
      '64:ff9b::a00:1',
      'fc00::1',
      'fd12::1',
      'fe80::1',
      'fe80::1%eth0',
    ],
    ...['ff02::1', '2001:db8::1', '2002:a00:1::', '2001:0:a00:1::', 'localhost', ''],
  ]
  for (const address of inside) expect(isPublicAddress(address), address).toBe(false)
  for (const address of ['8.8.8.8', '172.32.0.1', '100.128.0.1', '192.169.0.1', '2606:4700::1', '2a00:1450::1']) {
    expect(isPublicAddress(address), address).toBe(true)
  }
})

describe('files of a repository', () => {
  const choose = (names: readonly string[], wanted: string | null = null): string[] => {
    const files = names.map((name, i) => ({ name, sizeBytes: 100 - i, sha256: 'a'.repeat(64), gitSha1: null }))
    return chooseHubFiles({ commit: 'c', files }, 'org/m', wanted).map((file) => file.name)
  }
  test('configuration and tokenizer come before the weights; the rest stays there', () => {
    const names = ['model.safetensors', 'README.md', 'pytorch_model.bin', 'tokenizer.json', 'config.json', 'onnx.onnx']
    expect(choose(names)).toEqual(['tokenizer.json', 'config.json', 'model.safetensors'])
  })
  test('shards come with their index; beside a single file, which counts alone, the index comes to tell of them', () => {
    const shards = [
      'model-00001-of-00002.safetensors',
      'model-00002-of-00002.safetensors',
      'model.safetensors.index.json',
    ]
    expect(choose(['config.json', ...shards]).toSorted()).toEqual(['config.json', ...shards].toSorted())
    expect(choose(['config.json', 'model.safetensors', ...shards]).toSorted()).toEqual([
      'config.json',
      'model.safetensors',
      'model.safetensors.index.json',
    ])
  })
  test('one GGUF file is taken; of several the one that is named, by file or by quantization', () => {
    expect(choose(['m.gguf', 'README.md'])).toEqual(['m.gguf'])
    const several = ['m-Q4_K_M.gguf', 'm.Q8_0.gguf', 'm-bf16.gguf', 'mmproj-f16.gguf']
    expect(choose(several, 'q8_0')).toEqual(['m.Q8_0.gguf'])
    expect(choose(several, 'Q4_K_M')).toEqual(['m-Q4_K_M.gguf'])
    expect(choose(several, 'm-bf16.gguf')).toEqual(['m-bf16.gguf'])
    expect(() => choose(several)).toThrow('say which')
    expect(() => choose(several, 'Q5_0')).toThrow('no GGUF file "Q5_0"')
    expect(choose([...several, 'config.json', 'model.safetensors'], 'Q8_0')).toEqual(['m.Q8_0.gguf'])
  })
})
