/**
 * Episodes with tools: who says what in which order, when one ends, and what it is dropped for.
 */
import { describe, expect, it } from 'vitest'
import { createDrops, DroppedError, playEpisode } from '#plugins/loops/process/episodes.js'
import type { LoopRow } from '#plugins/loops/process/rows.js'
import type { ToolAnswer, ToolCallRequest } from '#plugins/loops/tools.js'
import { ApiError } from '#sdk/client/errors.js'
import { Trajectory, TrajectoryGroup } from '#sdk/rl/trajectory.js'

const ROW: LoopRow = { messages: [{ role: 'user', content: 'q' }], tools: null, responseFormat: null, item: {} }
const TOOLS = [{ name: 'find', serverUrl: 'https://example.com/', headers: {} }]

const said = (content: string | null, ...calls: string[]) =>
  ({
    choices: [
      {
        index: 0,
        finish_reason: calls.length > 0 ? 'tool_calls' : 'stop',
        message: {
          role: 'assistant',
          content,
          tool_calls: calls.map((name, i) => ({
            id: `call_x${i}`,
            type: 'function',
            function: { name, arguments: `{"n":${i}}` },
          })),
        },
      },
    ],
  }) as never

async function play(answers: readonly unknown[], ask: (call: ToolCallRequest) => ToolAnswer, mostSteps = 10) {
  const bodies: { messages: readonly { role: string }[]; tools?: readonly unknown[]; seed: number }[] = []
  const calls: ToolCallRequest[] = []
  const trajectory = await playEpisode({
    ...{ row: ROW, tools: TOOLS, seed: 7, mostSteps },
    chat: async (body) => {
      bodies.push(body as never)
      const answer = answers[bodies.length - 1]
      if (answer instanceof Error) throw answer
      return answer as never
    },
    ask: async (call) => {
      calls.push(call)
      return ask(call)
    },
  })
  return { trajectory, bodies, calls }
}

const shown = (output: string): ToolAnswer => ({ output, isError: false })

describe('an episode', () => {
  it('without a call is one turn', async () => {
    const { trajectory, bodies } = await play([said('done')], () => shown(''))
    expect(trajectory.metrics).toEqual({ turns: 1, tool_calls: 0, tool_errors: 0, is_cut_off: false })
    expect(bodies[0]).toMatchObject({ seed: 7, tools: [{ type: 'function', function: { name: 'find' } }] })
  })

  it('shows the model what its calls are answered, each in its place, with other seeds', async () => {
    const answers = [said(null, 'find', 'gone'), said(null, 'find'), said('done')]
    const { trajectory, bodies, calls } = await play(answers, ({ callId }) => shown(`of ${callId}`))
    expect(calls.map(({ callId, arguments: text }) => [callId, text])).toEqual([
      ['call_1_0', '{"n":0}'],
      ['call_2_0', '{"n":0}'],
    ])
    expect(new Set(calls.map(({ traceId }) => traceId)).size).toBe(1)
    expect(bodies[2]?.messages.map(({ role }) => role)).toEqual([
      ...['user', 'assistant', 'tool', 'tool', 'assistant', 'tool'],
    ])
    expect(bodies[1]?.messages.slice(2)).toMatchObject([
      { tool_call_id: 'call_x0', name: 'find', content: 'of call_1_0' },
      { tool_call_id: 'call_x1', content: 'error: there is no tool "gone"' },
    ])
    expect(new Set(bodies.map(({ seed }) => seed)).size).toBe(3)
    expect(trajectory.metrics).toEqual({ turns: 3, tool_calls: 3, tool_errors: 1, is_cut_off: false })
    expect(trajectory.answer).toBe('done')
  })

  it('ends at its last step without that call being made', async () => {
    const { trajectory, calls } = await play([said(null, 'find'), said(null, 'find')], () => shown('x'), 2)
    expect(calls).toHaveLength(1)
    expect(trajectory.metrics).toMatchObject({ turns: 2, is_cut_off: true })
  })

  it('ends where what the tools said does not fit, and fails where the first turn does not', async () => {
    const body = { error: { code: 'context_length_exceeded', message: 'too long' } }
    const tooLong = new ApiError({ status: 400, body, requestId: null, retryAfterMs: null })
    const { trajectory } = await play([said(null, 'find'), tooLong], () => shown('x'))
    expect(trajectory.metrics).toMatchObject({ turns: 1, is_cut_off: true })
    await expect(play([tooLong], () => shown('x'))).rejects.toBe(tooLong)
  })

  it('is dropped where a tool gave no answer', async () => {
    await expect(play([said(null, 'find')], () => ({ dropped: 'gone' }))).rejects.toThrow(DroppedError)
  })
})

it('episodes that are dropped are exceptions of their group', () => {
  const drops = createDrops(2)
  drops.note(1, new DroppedError('gone'))
  const groups = drops.addTo([new TrajectoryGroup([new Trajectory()]), new TrajectoryGroup([new Trajectory()])])
  expect(groups.map(({ exceptions }) => exceptions)).toEqual([
    [],
    [{ type: 'tool_failed', message: 'gone', traceback: '' }],
  ])
})
