/**
 * Notes of rollouts as a worker uploads them (`contract/processes/rollouts.ts`), of made-up numbers: every trajectory of a group with
 * different rewards was trained as one sequence, of four tokens of prompt and `tokens` that train.
 */

const COLUMNS = ['sampler_logprob', 'old_logprob', 'learner_logprob', 'ratio', 'entropy']
/** What tokens are called; some are harm, half a character, or nothing that is seen. */
const PIECES = [
  [' the', 0],
  [' word', 0],
  ['<|end|>', 1],
  ['<img src=x onerror=alert(1)>', 0],
  ['\u202e\u200b', 0],
  [Buffer.from([0xe2, 0x82]), 0],
  ['\n', 0],
  [' javascript:alert(2)', 0],
].map(([text, flag]) => ({ bytes: Buffer.from(text), flag }))

/** @param groups as they were sent */
export function encodeRollouts(groups, { tokens = 12 } = {}) {
  const blocks = []
  const sequences = []
  let offset = 0
  const push = (...parts) => {
    const block = Buffer.concat(parts.map((part) => Buffer.from(part.buffer, part.byteOffset, part.byteLength)))
    const padded = Buffer.alloc(Math.ceil(block.length / 4) * 4)
    block.copy(padded)
    blocks.push(padded)
    offset += padded.length
  }
  const listed = groups.map(({ trajectories, exceptions = [], metadata = {} }, g) => {
    const mean = trajectories.reduce((sum, { reward }) => sum + reward, 0) / trajectories.length
    const isFlat = trajectories.every(({ reward }) => reward === trajectories[0].reward)
    return {
      preview: `group ${g} <img src=x onerror=alert(1)>`,
      exceptions: exceptions.length,
      ...(exceptions.length === 0
        ? {}
        : {
            failures: Object.fromEntries(
              exceptions.map(({ type }) => [type, exceptions.filter((each) => each.type === type).length]),
            ),
          }),
      ...(metadata.environment === undefined ? {} : { environment: metadata.environment }),
      trajectories: trajectories.map(({ reward }, t) => {
        if (isFlat)
          return { reward, left_out: trajectories.length === 1 ? 'single_trajectory' : 'equal_rewards', tokens: 0 }
        const length = 4 + tokens
        const ids = Int32Array.from({ length }, (_, i) => (i * 7 + t) % PIECES.length)
        const learner = Float32Array.from({ length: tokens }, (_, i) => -0.1 - ((i * 13 + t) % 40) / 10)
        const sampler = learner.map((value, i) => value - Math.sin(i) / 3)
        const entropy = learner.map((value) => Math.min(3, -value))
        const ratio = learner.map((value, i) => (i % 9 === 5 ? 5.5 : Math.exp(value - sampler[i])))
        const mask = Uint8Array.from({ length }, (_, i) => (i < 4 ? 0 : 1))
        const total = entropy.reduce((sum, value) => sum + value, 0)
        sequences.push({ group: g, trajectory: t, step: 1, length, trained: tokens, offset, entropy: total })
        push(ids, sampler, sampler, learner, ratio, entropy, mask)
        return { reward, tokens, advantage: (reward - mean) * 2, weight: 1 }
      }),
    }
  })
  const pieces = { offset, count: PIECES.length, bytes: PIECES.reduce((sum, { bytes }) => sum + bytes.length, 0) }
  let end = 0
  push(
    Int32Array.from(PIECES, (_, id) => id),
    Int32Array.from(PIECES, ({ bytes }) => (end += bytes.length)),
    Uint8Array.from(PIECES, ({ flag }) => flag),
    Buffer.concat(PIECES.map(({ bytes }) => bytes)),
  )
  const clip = { low: 0, high: 5 }
  const head = { version: 1, clip, columns: COLUMNS, parent_step: 0, groups: listed, sequences, omitted: 0, pieces }
  return Buffer.concat([Buffer.from(`${JSON.stringify(head)}\n`), ...blocks])
}
