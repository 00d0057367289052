/**
 * Rows of the Tinker API: what is read of the bytes, and what is refused by which name.
 */
import { expect, test } from 'vitest'
import { ProtobufWriter } from '#base/protobuf/protobuf-writer.js'
import { checkLossRequest } from '#formats/training-loop/loss-inputs.js'
import { readLossRequest, readLossRequestHead } from '#formats/training-loop/loss-request.js'
import { type Datum, encodeLossCall, type LossCall } from '../../../support/tinker/tinker-client.js'

const LIMITS = { vocabularySize: 100, contextLength: 8 }
const check = (call: LossCall) => checkLossRequest(readLossRequest(encodeLossCall('m', 3, call)), LIMITS)
const row = (inputs: Datum['inputs'], tokens = [1, 2]): Datum => ({
  tokens,
  inputs: { target_tokens: tokens.map((id) => id + 1), ...inputs },
})
const ratio = { logprobs: [-1, -2], advantages: [0.5, -0.5] }

test('a request is read as it was written', () => {
  const call = {
    loss: 'ppo',
    data: [row(ratio), row({ logprobs: [-1], advantages: [2] }, [9])],
    config: { clip_low_threshold: 0.7 },
  }
  const head = readLossRequestHead(encodeLossCall('s:train:0', 7, { ...call, isForwardOnly: true }))
  expect(head).toEqual({
    modelId: 's:train:0',
    seqId: 7,
    lossName: 'ppo',
    config: new Map([['clip_low_threshold', 0.7]]),
    isForwardOnly: true,
    datumCount: 2,
  })
  const { config, sequences, isForwardOnly } = check(call)
  expect(isForwardOnly).toBe(false)
  expect(config).toEqual({ clip_low_threshold: 0.7, clip_high_threshold: 1.2 })
  expect(sequences[0]).toEqual({
    tokens: Int32Array.of(1, 2),
    targets: Int32Array.of(2, 3),
    advantages: Float32Array.of(0.5, -0.5),
    logprobs: Float32Array.of(-1, -2),
    ratioMask: null,
  })
  expect(sequences[1]?.tokens).toEqual(Int32Array.of(9))
})

test.each<[string, LossCall, string]>([
  [
    'a loss that is not served',
    { loss: 'stable_reinforce', data: [row({})] },
    'loss_fn must be one of cross_entropy, ',
  ],
  [
    'a setting of another loss',
    { loss: 'cispo', data: [row(ratio)], config: { beta: 1 } },
    'has "beta", expected clip_low',
  ],
  [
    'bounds as distances',
    { loss: 'ppo', data: [row(ratio)], config: { clip_high_threshold: 0.2 } },
    'between 0 and clip_high',
  ],
  ['no rows', { loss: 'cross_entropy', data: [] }, 'data is empty'],
  [
    'a missing input',
    { loss: 'ppo', data: [row({ logprobs: [-1, -1] })] },
    'data[0] has no advantages, which ppo takes',
  ],
  [
    'an input of another loss',
    { loss: 'cross_entropy', data: [row(ratio)] },
    'cross_entropy takes target_tokens, weights',
  ],
  [
    'another length',
    { loss: 'cross_entropy', data: [row({ weights: [1] })] },
    'data[0].weights has 1 values, expected one',
  ],
  ['what is no number', { loss: 'cross_entropy', data: [row({ weights: [1, Number.NaN] })] }, 'weights[1] is NaN'],
  [
    'a token beyond the vocabulary',
    { loss: 'cross_entropy', data: [row({ weights: [1] }, [99])] },
    'is 100, the model has 100',
  ],
  ['a row beyond the context', { loss: 'cross_entropy', data: [row({}, [1, 2, 3, 4, 5, 6, 7, 8, 9])] }, 'context is 8'],
])('%s is refused by name', (_, call, words) => {
  expect(() => check(call)).toThrow(words)
})

test('images and sparse tensors are refused by name', () => {
  const wrap = (datum: ProtobufWriter) => new ProtobufWriter().string(4, 'cross_entropy').message(3, datum).finish()
  const image = new ProtobufWriter().message(1, new ProtobufWriter().message(2, new ProtobufWriter().string(2, 'png')))
  expect(() => readLossRequest(wrap(image))).toThrow('data[0] holds an image, expected tokens alone')
  const sparse = new ProtobufWriter().message(2, new ProtobufWriter().bytes(1, Uint8Array.of(0, 0, 0, 0)))
  const entry = new ProtobufWriter().string(1, 'weights').message(2, sparse)
  expect(() => readLossRequest(wrap(new ProtobufWriter().message(2, entry)))).toThrow('data[0].weights is sparse')
})
