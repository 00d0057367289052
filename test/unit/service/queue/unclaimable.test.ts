/**
 * What is said of a job that no worker can take.
 */
import { describe, expect, it } from 'vitest'
import { whyUnclaimable } from '#service/queue/unclaimable.js'

const ANY = { trainer: null, weightBytes: null }
const SMALL = { trainers: ['onnx'], memoryBytes: 8e9 }
const LARGE = { trainers: ['onnx', 'torch'], memoryBytes: 64e9 }

describe('a job that nobody can take', () => {
  it.each([
    ['there is no worker', ANY, [], 'no worker takes jobs'],
    ['none has its trainer', { ...ANY, trainer: 'torch' }, [SMALL], 'start one with --trainer torch'],
    [
      'none has the memory',
      { ...ANY, weightBytes: 70e9 },
      [SMALL, LARGE],
      'takes 70 GB, and no worker has more than 64 GB',
    ],
    [
      'the one with the memory has not its trainer',
      { trainer: 'torch', weightBytes: 20e9 },
      [
        { ...LARGE, trainers: ['onnx'] },
        { ...SMALL, trainers: ['torch'] },
      ],
      'no worker has more than 8 GB',
    ],
  ])('hears why where %s', (_, needs, workers, said) => {
    expect(whyUnclaimable(needs, workers)).toContain(said)
  })

  it('is none where one can, or where nobody knows what it needs or what the worker has', () => {
    expect(whyUnclaimable({ trainer: 'torch', weightBytes: 20e9 }, [SMALL, LARGE])).toBeNull()
    expect(whyUnclaimable(ANY, [SMALL])).toBeNull()
    expect(whyUnclaimable({ ...ANY, weightBytes: 70e9 }, [{ ...SMALL, memoryBytes: null }])).toBeNull()
  })
})
