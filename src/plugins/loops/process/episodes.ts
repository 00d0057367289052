/**
 * Episodes with tools: the model answers, its calls are answered by the server, until it answers without a call or may not go on.
 * The first turn's seed makes those of the others.
 */
import { createHash } from 'node:crypto'
import type { ChatRequestBody, ChatResponse } from '#contract/wire/chat-completions.js'
import { ApiError } from '#sdk/client/errors.js'
import { toolCallsOf } from '#sdk/rl/tool-calls.js'
import { type Message, type RolloutException, type Tool, Trajectory, TrajectoryGroup } from '#sdk/rl/trajectory.js'
import type { EpisodeTool, ToolAnswer, ToolCallRequest } from '../tools.js'
import { type LoopRow, seedOf } from './rows.js'

/** Asks the server to call a tool. */
export type AskTool = (call: ToolCallRequest) => Promise<ToolAnswer>

/** The tools gave no answer: nothing is learned from it, and trying again has been done. */
export class DroppedError extends Error {}

/** What the model is told of tools where its row says nothing. */
export const toolsOf = (row: LoopRow, tools: readonly EpisodeTool[]): readonly Tool[] | null => {
  if (row.tools !== null || tools.length === 0) return row.tools
  const parameters = { type: 'object', properties: {}, additionalProperties: true }
  return tools.map(({ name }) => ({ type: 'function', function: { name, parameters } }))
}

interface Episode {
  readonly row: LoopRow
  readonly tools: readonly EpisodeTool[]
  readonly seed: number
  /** Turns of the model at most. */
  readonly mostSteps: number
  chat(body: Pick<ChatRequestBody, 'messages' | 'tools' | 'seed'>): Promise<ChatResponse>
  readonly ask: AskTool
}

/** @throws {DroppedError} */
export async function playEpisode({ row, tools, seed, mostSteps, chat, ask }: Episode): Promise<Trajectory> {
  const offered = toolsOf(row, tools)
  const trajectory = new Trajectory(row.messages, offered === null ? {} : { tools: offered })
  const known = new Set(tools.map(({ name }) => name))
  const traceId = `trace_${createHash('sha256')
    .update(`${seed} ${JSON.stringify(row.messages)}`)
    .digest('hex')
    .slice(0, 32)}`
  let [calls, errors] = [0, 0]
  let isCutOff = false
  for (let turn = 1; ; turn += 1) {
    const response = await chatOnce(turn)
    if (response === null) {
      isCutOff = true
      break
    }
    const [choice] = trajectory.record(response).toolCalls.length === 0 ? [] : response.choices
    if (choice === undefined) break
    if (turn >= mostSteps) {
      isCutOff = true
      break
    }
    for (const [i, call] of toolCallsOf(choice.message).entries()) {
      const callId = `call_${turn}_${i}`
      const said: ToolAnswer = known.has(call.name)
        ? await ask({ name: call.name, callId, arguments: call.text, traceId })
        : { output: `error: there is no tool "${call.name}"`, isError: true }
      if ('dropped' in said) throw new DroppedError(said.dropped)
      calls += 1
      if (said.isError) errors += 1
      trajectory.add({ role: 'tool', tool_call_id: call.id, name: call.name, content: said.output } as Message)
    }
  }
  Object.assign(trajectory.metrics, { turns: trajectory.choices.length, tool_calls: calls, tool_errors: errors })
  trajectory.metrics['is_cut_off'] = isCutOff
  return trajectory

  /** Null: what the tools said does not fit. */
  async function chatOnce(turn: number): Promise<ChatResponse | null> {
    try {
      return await chat({
        messages: [...trajectory.messages],
        ...(offered === null ? {} : { tools: [...offered] }),
        seed: turn === 1 ? seed : seedOf(seed, 'turn', turn),
      })
    } catch (error) {
      if (turn > 1 && error instanceof ApiError && error.code === 'context_length_exceeded') return null
      throw error
    }
  }
}

/** Episodes that tools dropped, by group: they are exceptions, and are not played again. */
export function createDrops(groups: number) {
  const drops: RolloutException[][] = Array.from({ length: groups }, () => [])
  return {
    note: (group: number, { message }: DroppedError): void => {
      drops[group]?.push({ type: 'tool_failed', message, traceback: '' })
    },
    addTo: (gathered: readonly TrajectoryGroup[]): readonly TrajectoryGroup[] =>
      gathered.map(({ trajectories, exceptions, metadata }, i) => {
        const dropped = drops[i] ?? []
        if (dropped.length === 0) return gathered[i] as TrajectoryGroup
        return new TrajectoryGroup(trajectories, { exceptions: [...exceptions, ...dropped], metadata })
      }),
  }
}
