/** SFT files: what a line may be, which line is named when it is wrong, batches by original index, flat memory. */
import { describe, expect, it } from 'vitest'
import { createRng } from '#base/util/rng.js'
import { countSftExamples, readSftExamples } from '#formats/rows/examples/sft-example.js'
import {
  assertLearningRateCount,
  readSftBatches,
  type SftBatch,
  type SftText,
  sftBatchCount,
  surveySftData,
} from '#formats/rows/sft-data.js'
import { forSeeds } from '../../../support/model/random-trajectories.js'
import { collectGarbage } from '../../../support/process-cost.js'

const line = (answer: string, extra: Record<string, unknown> = {}): string =>
  JSON.stringify({
    messages: [
      { role: 'user', content: 'q' },
      { role: 'assistant', content: answer },
    ],
    ...extra,
  })

/** Words are tokens; words of assistant messages train. */
const text: SftText = {
  isReasoningRead: true,
  renderTurns: ({ messages }, assistantTurns) => {
    const tokenIds: number[] = []
    const mask: number[] = []
    messages.forEach((message, m) => {
      if (message['content'] === 'refuse') throw new Error('cannot render this.')
      const words = String(message['content']).split(' ').filter(Boolean)
      const trains =
        message['role'] === 'assistant' &&
        (Array.isArray(assistantTurns)
          ? assistantTurns.includes(m)
          : assistantTurns === 'all' || m === messages.length - 1)
      tokenIds.push(...words.map((word) => word.length))
      mask.push(...words.map(() => (trains ? 1 : 0)))
    })
    const leftOut = messages.filter(({ role }) => role === 'unknown').map(({ role }) => String(role))
    return { sequences: [{ tokenIds, mask }], leftOut }
  },
}
const partOfTurn = `${JSON.stringify({
  messages: [
    { role: 'user', content: 'q' },
    { role: 'assistant', content: 'a b', train_detail: [{ begin_offset: 0, end_offset: 1, train: false }] },
  ],
})}\n`
const options = { text, batchSize: 2, assistantTurns: 'all', maxLength: 10 } as const

async function* bytes(content: string | Uint8Array, chunkSize = 1 << 16): AsyncGenerator<Uint8Array> {
  const all = typeof content === 'string' ? Buffer.from(content) : content
  for (let start = 0; start < all.length; start += chunkSize) yield all.subarray(start, start + chunkSize)
}

async function collect<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const list: Item[] = []
  for await (const item of items) list.push(item)
  return list
}

const batchesOf = (content: string, extra: Partial<Parameters<typeof readSftBatches>[1]> = {}): Promise<SftBatch[]> =>
  collect(readSftBatches(bytes(content), { ...options, ...extra }))

describe('readSftExamples', () => {
  it('reads BOM, CRLF, blank lines and a last line without newline', async () => {
    const content = `\uFEFF${line('a')}\r\n\r\n   \n${line('b', { tools: [{ type: 'function' }] })}`
    const examples = await collect(readSftExamples(bytes(content)))
    expect(examples.map((e) => [e.lineNumber, e.messages.at(-1)?.content, e.tools?.length])).toEqual([
      [1, 'a', undefined],
      [4, 'b', 1],
    ])
  })

  it('gives the same examples however the bytes are cut, also inside characters', async () => {
    const content = `${line('größe 東京 🙂')}\r\n${line('b')}\n`
    const whole = await collect(readSftExamples(bytes(content)))
    for (let size = 1; size < 12; size += 1) expect(await collect(readSftExamples(bytes(content, size)))).toEqual(whole)
  })

  const user = (content: string) => ({ role: 'user', content })
  const assistant = (content: string, weight?: number) => ({
    role: 'assistant',
    content,
    ...(weight === undefined ? {} : { weight }),
  })
  const rows = (...list: readonly object[]): string => list.map((row) => JSON.stringify(row)).join('\n')

  it('reads messages of a data set that keeps its first one as prompt beside them', async () => {
    const messages = [user('q'), assistant('a')]
    const [example] = await collect(readSftExamples(bytes(rows({ prompt: 'q', prompt_id: 'x', messages }))))
    expect(example).toMatchObject({ messages, trainedTurns: null })
  })

  it("reads TRL's prompt and completion, of which the completion trains", async () => {
    const content = rows(
      { prompt: 'q', completion: 'a', messages: null },
      { prompt: [user('q'), assistant('b'), user('r')], completion: [assistant('c'), user('s'), assistant('d')] },
      { prompt: [user('q')], completion: [assistant('c', 0), user('s'), assistant('d', 1)], tools: [{}] },
    )
    expect(await collect(readSftExamples(bytes(content)))).toEqual([
      { lineNumber: 1, messages: [user('q'), assistant('a')], tools: null, trainedTurns: [1] },
      {
        lineNumber: 2,
        messages: [user('q'), assistant('b'), user('r'), assistant('c'), user('s'), assistant('d')],
        tools: null,
        trainedTurns: [3, 5],
      },
      {
        lineNumber: 3,
        messages: [user('q'), assistant('c'), user('s'), assistant('d')],
        tools: [{}],
        trainedTurns: [3],
      },
    ])
    const [batch] = await batchesOf(
      rows({ prompt: [user('q'), assistant('xx'), user('r')], completion: [assistant('a b')] }),
    )
    expect(Array.from(batch?.sequences[0]?.lossMask ?? [])).toEqual([0, 0, 0, 1, 1])
  })

  it.each([
    [{ prompt: 'q' }, 'both a text or both a list of messages, got a text and nothing'],
    [{ completion: 'q' }, 'got nothing and a text'],
    [{ prompt: 'q', completion: [assistant('a')] }, 'got a text and an array'],
    [{ prompt: [user('q')], completion: 'a' }, 'got an array and a text'],
    [{ prompt: 5, completion: 'a' }, 'got 5 and a text'],
    [
      { prompt: 'q', completion: 'a', messages: [user('q'), assistant('a')] },
      'either messages or prompt and completion',
    ],
    [{ prompt: [], completion: [assistant('a')] }, 'must have a non-empty array prompt'],
    [{ prompt: [user('q')], completion: [{}] }, 'has completion[0].role that is not a string'],
    [{ prompt: [user('q')], completion: [user('a')] }, 'must end completion with an assistant message'],
    [{ prompt: 'q', completion: 'a', loss_mask: 'all' }, 'loss_mask that stands beside prompt and completion'],
  ])('%j is refused with its line and what is expected', async (row, problem) => {
    await expect(collect(readSftExamples(bytes(`${line('a')}\n${rows(row)}`)))).rejects.toMatchObject({
      category: 'invalid_request',
      message: expect.stringMatching(/^Line 2 /),
      details: { line: 2 },
    })
    await expect(collect(readSftExamples(bytes(rows(row))))).rejects.toThrow(problem)
  })

  const refused: [string, string | Uint8Array, string, number][] = [
    ['a bad line in the middle', `${line('a')}\n{"messages": \n${line('b')}\n`, 'invalid_json', 2],
    ['a torn last line', `${line('a')}\n${line('b').slice(0, -5)}`, 'torn_last_line', 2],
    // none of them ends with a line feed, and none is cut off
    ['NaN in the last line', `${line('a')}\n${line('b').slice(0, -1)},"score":NaN}`, 'invalid_json', 2],
    ['a comma too many in the last line', `${line('a')}\n${line('b').slice(0, -1)},}`, 'invalid_json', 2],
    ['True in the last line', `${line('a')}\n${line('b').slice(0, -1)},"x":True}`, 'invalid_json', 2],
    ['two rows in the last line', `${line('a')}\n${line('b')}${line('b')}`, 'invalid_json', 2],
    ['a part of a turn that does not train', partOfTurn, 'invalid_loss_mask', 1],
    ['two system prompts', `${line('a', { system: 'x', system_prompt: 'y' })}\n`, 'invalid_example', 1],
    ['a line that is a list', `[]\n`, 'invalid_example', 1],
    ['no messages', `{}\n`, 'invalid_example', 1],
    ['empty messages', `{"messages":[]}\n`, 'invalid_example', 1],
    ['a message without role', `{"messages":[{"content":"x"}]}\n`, 'invalid_example', 1],
    ['numeric content', `{"messages":[{"role":"assistant","content":5}]}\n`, 'invalid_example', 1],
    ['a wrong last role', `${line('a')}\n{"messages":[{"role":"user","content":"x"}]}\n`, 'wrong_last_role', 2],
    ['tools that are no list', `${line('a', { tools: {} })}\n`, 'invalid_example', 1],
    ['an unknown loss mask', `${line('a', { loss_mask: 'some' })}\n`, 'invalid_loss_mask', 1],
    ['a loss mask of another length', `${line('a', { loss_mask: [true] })}\n`, 'invalid_loss_mask', 1],
    ['a loss mask on a user turn', `${line('a', { loss_mask: [true, true] })}\n`, 'invalid_loss_mask', 1],
    ['a loss mask of a foreign role', `${line('a', { loss_mask: { roles: ['user'] } })}\n`, 'invalid_loss_mask', 1],
    [
      'bytes that are not UTF-8',
      Uint8Array.from([...Buffer.from(`${line('a')}\n"`), 0xff, 0x22, 0x0a]),
      'invalid_encoding',
      2,
    ],
  ]
  for (const [what, content, code, number] of refused) {
    it(`refuses ${what} with its line number`, async () => {
      await expect(collect(readSftExamples(bytes(content)))).rejects.toMatchObject({
        category: 'invalid_request',
        code,
        message: expect.stringContaining(`Line ${number} `),
        details: { line: number },
      })
    })
  }

  it.each<readonly [string, string | Uint8Array, string, RegExp]>([
    ['UTF-16', Buffer.from(`\uFEFF${line('a')}`, 'utf16le'), 'invalid_encoding', /UTF-16, expected UTF-8/],
    [
      'a Git LFS pointer',
      'version https://git-lfs.github.com/spec/v1\noid sha256:00\n',
      'not_json_lines',
      /Git LFS pointer/,
    ],
    ['a web page', '\n <html lang="en">', 'not_json_lines', /web page/],
    ['an archive', 'PK\x03\x04', 'not_json_lines', /zip/],
    ['a table', 'prompt;completion\nq;a\n', 'not_json_lines', /CSV/],
    ['a compressed file inside of one', Uint8Array.of(0x1f, 0x8b, 8, 0), 'not_json_lines', /gzip/],
  ])('calls %s what it is, however it comes', async (_name, content, code, message) => {
    for (const chunkSize of [1, 7, 1000]) {
      const read = countSftExamples(bytes(content, chunkSize))
      await expect(read).rejects.toMatchObject({
        code,
        message: expect.stringMatching(message),
        hint: expect.any(String),
      })
    }
  })

  it('refuses an empty file', async () => {
    for (const content of ['', '\n\n', '\uFEFF']) {
      await expect(countSftExamples(bytes(content))).rejects.toMatchObject({ code: 'empty_training_data' })
    }
  })

  it('refuses a line beyond the limit while it arrives, not after', async () => {
    let sent = 0
    async function* endless(): AsyncGenerator<Uint8Array> {
      for (;;) {
        sent += 1024
        yield Buffer.alloc(1024, 'x')
      }
    }
    await expect(countSftExamples(endless(), { maxLineBytes: 10_000 })).rejects.toMatchObject({ code: 'line_too_long' })
    expect(sent).toBeLessThan(20_000)
  })

  it('finds one bad line far into a file', async () => {
    const good = `${line('a')}\n`
    async function* long(): AsyncGenerator<Uint8Array> {
      for (let i = 0; i < 50; i += 1) yield Buffer.from(good.repeat(1000))
      yield Buffer.from('oops\n')
    }
    await expect(countSftExamples(long())).rejects.toMatchObject({ code: 'invalid_json', details: { line: 50_001 } })
  })
})

describe('readSftBatches', () => {
  it('cuts the file in order, the last batch shorter', async () => {
    const batches = await batchesOf(['a', 'b b', 'c'].map((answer) => line(answer)).join('\n'))
    expect(batches.map((b) => [b.index, b.exampleCount, b.trainableTokenCount, b.tokenCount])).toEqual([
      [0, 2, 3, 5],
      [1, 1, 1, 2],
    ])
    expect([...batches[0].sequences[1].lossMask]).toEqual([0, 1, 1])
    expect([...batches[0].sequences[1].tokenIds]).toEqual([1, 1, 1])
  })

  it('drops overlength examples whole and keeps the index of later batches', async () => {
    const long = 'w '.repeat(20)
    const batches = await batchesOf([long, long, 'a', 'b'].map((answer) => line(answer)).join('\n'))
    expect(batches.map((b) => [b.index, b.sequences.length, b.droppedCount, b.trainableTokenCount])).toEqual([
      [0, 0, 2, 0],
      [1, 2, 0, 2],
    ])
  })

  it('keeps an example of exactly the longest length', async () => {
    const [batch] = await batchesOf(line('w '.repeat(9)))
    expect([batch.sequences.length, batch.droppedCount]).toEqual([1, 0])
  })

  it('passes over examples in which nothing trains, and counts them', async () => {
    const [batch] = await batchesOf(`${line('')}\n${line('a')}`)
    expect([batch.sequences.length, batch.untrainableCount]).toEqual([1, 1])
  })

  it('trains only the last turn when asked to', async () => {
    const content = JSON.stringify({
      messages: ['user', 'assistant', 'user', 'assistant'].map((role) => ({ role, content: 'x' })),
    })
    const [all] = await batchesOf(content)
    const [last] = await batchesOf(content, { assistantTurns: 'last' })
    expect([[...all.sequences[0].lossMask], [...last.sequences[0].lossMask]]).toEqual([
      [0, 1, 0, 1],
      [0, 0, 0, 1],
    ])
  })

  it.each([
    ['all', [0, 1, 0, 1]],
    ['last_assistant', [0, 0, 0, 1]],
    ['none', [0, 0, 0, 0]],
    [
      [false, true, false, false],
      [0, 1, 0, 0],
    ],
    [{ message_mask: [false, false, false, true] }, [0, 0, 0, 1]],
    [{ roles: ['assistant'] }, [0, 1, 0, 1]],
  ])('a line says itself what trains: loss_mask %j', async (lossMask, expected) => {
    const messages = ['user', 'assistant', 'user', 'assistant'].map((role) => ({ role, content: 'x' }))
    const [batch] = await batchesOf(
      `${JSON.stringify({ messages, loss_mask: lossMask })}\n${JSON.stringify({ messages })}`,
      { assistantTurns: 'last' },
    )
    const trains = expected.includes(1)
    expect(batch.untrainableCount).toBe(trains ? 0 : 1)
    if (trains) expect([...batch.sequences[0].lossMask]).toEqual(expected)
    expect([...batch.sequences.at(-1)!.lossMask]).toEqual([0, 0, 0, 1])
  })

  it('does not train messages of weight 0, which the template never sees', async () => {
    const messages = [
      { role: 'user', content: 'x' },
      { role: 'assistant', content: 'x', weight: 0 },
      { role: 'user', content: 'x' },
      { role: 'assistant', content: 'x', weight: 1 },
    ]
    const [batch] = await batchesOf(JSON.stringify({ messages }))
    expect([...batch.sequences[0].lossMask]).toEqual([0, 0, 0, 1])
    const [example] = await collect(readSftExamples(bytes(JSON.stringify({ messages }))))
    expect(example.messages.some((message) => 'weight' in message)).toBe(false)
  })

  it.each([{ weight: 0 }, { train: false }, { training: false }, { loss: false }, { weight: 1, train: false }])(
    'a last turn with %j does not train, and no other in its place',
    async (word) => {
      const messages = ['user', 'assistant', 'user', 'assistant'].map((role) => ({ role, content: 'x' }))
      const content = JSON.stringify({ messages: messages.map((each, m) => (m === 3 ? { ...each, ...word } : each)) })
      const [last] = await batchesOf(content, { assistantTurns: 'last' })
      expect(last).toMatchObject({ untrainableCount: 1, trainableTokenCount: 0, sequences: [] })
      const [all] = await batchesOf(content)
      expect([...all.sequences[0].lossMask]).toEqual([0, 1, 0, 0])
      const [example] = await collect(readSftExamples(bytes(content)))
      expect(example.messages[3]).toEqual({ role: 'assistant', content: 'x' })
    },
  )

  it('a row that says it does not train has nothing to train on', async () => {
    const [batch] = await batchesOf(line('a', { train: false }))
    expect(batch).toMatchObject({ untrainableCount: 1, trainableTokenCount: 0 })
  })

  it.each(['system', 'system_prompt'])('%s beside the turns is their system message', async (name) => {
    const system = { role: 'system', content: 's' }
    const [q, a, r, b] = ['q', 'a', 'r', 'b'].map((content, m) => ({ role: m % 2 ? 'assistant' : 'user', content }))
    const turns = [q, a, r, b]
    const own = { messages: turns, [name]: 's', loss_mask: [false, true, false, false] }
    const list = [own, { messages: [system, ...turns], [name]: 's' }, { prompt: 'q', completion: 'a', [name]: 's' }]
    const read = await collect(readSftExamples(bytes(list.map((row) => JSON.stringify(row)).join('\n'))))
    expect(read.map(({ messages, trainedTurns }) => [messages, trainedTurns])).toEqual([
      [[system, ...turns], [2]],
      [[system, ...turns], null],
      [[system, q, a], [2]],
    ])
    const other = JSON.stringify({ messages: [{ role: 'system', content: 'z' }, ...turns], [name]: 's' })
    expect((await surveySftData(bytes(other), options)).notes).toEqual([`fields that nothing reads: ${name} (line 1)`])
  })

  const exchange = [
    { role: 'user', content: 'x' },
    { role: 'assistant', content: 'x' },
  ]

  it('gives a row its own weight, says so, and trains nothing of weight 0', async () => {
    const lines = [
      { messages: exchange, weight: 2.5 },
      { messages: exchange },
      { prompt: 'q', completion: 'x', weight: 0 },
    ]
    const content = lines.map((each) => JSON.stringify(each)).join('\n')
    const batches = await batchesOf(content)
    expect(batches.flatMap(({ sequences }) => sequences.map(({ weight }) => weight))).toEqual([2.5, undefined])
    expect(batches.at(-1)).toMatchObject({ untrainableCount: 1, trainableTokenCount: 0 })
    const { notes } = await surveySftData(bytes(content), options)
    expect(notes).toEqual([
      '2 of 3 rows have a weight of their own (all from 0 to 2.5), which multiplies the loss of their tokens',
    ])
  })

  it.each([-1, 'two', null, 1e9, [1]])('reads a weight of %j as none, or refuses it', async (weight) => {
    const content = JSON.stringify({ messages: exchange, weight })
    const read = collect(readSftExamples(bytes(content)))
    if (weight === null) expect(await read).toHaveLength(1)
    else await expect(read).rejects.toMatchObject({ code: 'invalid_weight', details: { line: 1 } })
  })

  it('names the lines that are left out', async () => {
    const lines = [line('a'), line('w '.repeat(20)), '', line(''), line('b')]
    const survey = await surveySftData(bytes(lines.join('\n')), options)
    expect(survey.leftOutLines).toEqual({ overlength: [2], untrainable: [4] })
  })

  it('never trains the first token, which nothing predicts', async () => {
    const [batch] = await batchesOf(JSON.stringify({ messages: [{ role: 'assistant', content: 'a b' }] }))
    expect([...batch.sequences[0].lossMask]).toEqual([0, 1])
  })

  it('leaves out and names a line that the chat template refuses; the others train', async () => {
    const survey = await surveySftData(bytes([line('a'), line('refuse'), line('b')].join('\n')), options)
    expect(survey).toMatchObject({ exampleCount: 3, trainableBatchCount: 2, untrainableCount: 0, droppedCount: 0 })
    expect(survey.refused.count).toBe(1)
    expect(survey.refused.examples).toEqual([expect.stringMatching(/^Line 2 .*cannot render this$/)])
  })

  it('refuses a file whose every line the chat template refuses, in its words', async () => {
    const content = `${line('refuse')}\n${line('refuse')}`
    await expect(surveySftData(bytes(content), options)).rejects.toMatchObject({
      code: 'unrenderable_example',
      message: expect.stringMatching(/^Line 1 .*cannot render this\.$/),
    })
  })

  it('leaves out a row that needs a token for which the model has no row of its embedding, and names it', async () => {
    const content = `${line('a')}\n${line('wwwwwww')}`
    const survey = await surveySftData(bytes(content), { ...options, text: { ...text, vocabularySize: 7 } })
    expect(survey.refused).toMatchObject({
      count: 1,
      examples: ['Line 2 needs token id 7, but the model has ids from 0 to 6'],
    })
    const all = await surveySftData(bytes(content), { ...options, text: { ...text, vocabularySize: 8 } })
    expect(all.refused.count).toBe(0)
  })

  it('surveys the sums of its batches', async () => {
    const rng = createRng('survey')
    const answers = Array.from({ length: 101 }, () => 'w '.repeat(rng.integer(14)))
    const content = answers.map((answer) => line(answer)).join('\n')
    const batches = await batchesOf(content, { batchSize: 3 })
    const survey = await surveySftData(bytes(content), { ...options, batchSize: 3 })
    const sum = (
      name: 'exampleCount' | 'droppedCount' | 'untrainableCount' | 'tokenCount' | 'trainableTokenCount',
    ): number => batches.reduce((total, batch) => total + batch[name], 0)
    expect(survey).toEqual({
      notes: [expect.stringContaining('assistant turns are empty')],
      orderNotes: [],
      refused: { count: 0, examples: [], error: null },
      exampleCount: sum('exampleCount'),
      batchCount: 34,
      trainableBatchCount: batches.filter((b) => b.sequences.length > 0).length,
      droppedCount: sum('droppedCount'),
      untrainableCount: sum('untrainableCount'),
      tokenCount: sum('tokenCount'),
      trainableTokenCount: sum('trainableTokenCount'),
      leftOutLines: {
        overlength: batches.flatMap((b) => b.leftOutLines.overlength).slice(0, 20),
        untrainable: batches.flatMap((b) => b.leftOutLines.untrainable).slice(0, 20),
      },
      leftOutMessages: { count: 0, examples: [] },
      splitCount: 0,
      lostCount: 0,
      longestLength: Math.max(...batches.flatMap((b) => b.sequences.map(({ tokenIds }) => tokenIds.length))),
    })
    expect(survey.exampleCount).toBe(101)
  })

  it('assigns every example to batch floor(i / batchSize)', async () => {
    const seeds: { count: number; batchSize: number }[] = []
    forSeeds(20, (rng) => seeds.push({ count: 1 + rng.integer(30), batchSize: 1 + rng.integer(7) }))
    for (const { count, batchSize } of seeds) {
      const batches = await batchesOf(Array.from({ length: count }, () => line('a')).join('\n'), { batchSize })
      expect(batches.length).toBe(sftBatchCount(count, batchSize))
      for (const batch of batches) {
        for (const sequence of batch.sequences)
          expect(Math.floor((sequence.lineNumber - 1) / batchSize)).toBe(batch.index)
      }
    }
  })

  it('needs flat memory: 300 MB pass through well under half of that', async () => {
    const chunk = Buffer.from(`${line('w '.repeat(100_000))}\n`)
    // what is reachable, whenever the collector would have come by itself
    const keptBytes = (): number => {
      collectGarbage()
      return process.memoryUsage().arrayBuffers + process.memoryUsage().heapUsed
    }
    let peak = 0
    async function* large(): AsyncGenerator<Uint8Array> {
      for (let i = 0; i < 1500; i += 1) {
        if (i % 100 === 0) peak = Math.max(peak, keptBytes())
        yield chunk
      }
    }
    const before = keptBytes()
    expect(await countSftExamples(large())).toBe(1500)
    expect(peak - before).toBeLessThan(60_000_000)
  })
})

describe('assertLearningRateCount', () => {
  it('takes a number, or exactly one value per batch', () => {
    assertLearningRateCount(1e-4, 7)
    assertLearningRateCount([1, 2, 3], 3)
    for (const count of [2, 4]) {
      expect(() => assertLearningRateCount([1, 2, 3], count)).toThrow(
        expect.objectContaining({
          code: 'learning_rate_count',
          param: 'config.learning_rate',
          category: 'invalid_request',
        }),
      )
    }
  })
})
