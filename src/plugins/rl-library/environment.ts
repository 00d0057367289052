/**
 * Episodes of several turns: an environment says what the model sees, judges each turn, and ends the episode.
 *
 * `createToolEnvironment` is the common case: functions the model may call until it answers without a call.
 */
import type { JsonObject } from '#base/util/json.js'
import { createRng } from '#base/util/rng.js'
import type { ToolCall } from '#sdk/rl/tool-calls.js'
import type { Answer, AskOptions, Message, Tool, Trajectory } from '#sdk/rl/trajectory.js'

type MaybePromise<T> = T | Promise<T>

/** What the world answers to a turn of the model. */
export interface Turn {
  /** Shown to the model before its next turn. */
  readonly messages?: readonly Message[]
  /** Added to the reward of the episode. */
  readonly reward?: number
  /** True ends the episode. Default false. */
  readonly isDone?: boolean
  /** Set on the trajectory. */
  readonly metrics?: Readonly<Record<string, number | boolean>>
}

/** One episode's world; made anew for each rollout. */
export interface Environment {
  /** The beginning: what the model sees first, and the tools it may call. */
  reset(): MaybePromise<{ readonly messages: readonly Message[]; readonly tools?: readonly Tool[] }>
  /** The world's turn. */
  step(answer: Answer, trajectory: Trajectory): MaybePromise<Turn>
}

/** Who plays: a `TrainableModel`, or anything else that begins trajectories. */
export interface Player {
  trajectory(messages: readonly Message[], options?: { readonly tools?: readonly Tool[] }): Trajectory
}

/**
 * Plays one episode to its end.
 *
 * The trajectory's `turns` counts the model's turns; `is_cut_off` is true when `maxTurns` ended it.
 *
 * @param options.maxTurns turns of the model at most; default 10
 * @param options.turnRewards whether turns say what they earned, so that none is thanked for what came before it; default false
 * @param options.seed of the first turn; each later turn draws from a seed made of it. The same seed in every turn would be the
 *   same random numbers: turns would rise and fall together, or one against the other, and hide from training what is good
 */
export async function play(
  player: Player,
  environment: Environment,
  options: AskOptions & { readonly maxTurns?: number; readonly turnRewards?: boolean } = {},
): Promise<Trajectory> {
  const { maxTurns = 10, turnRewards = false, seed, ...ask } = options
  const { messages, tools } = await environment.reset()
  const trajectory = player.trajectory(messages, tools === undefined ? {} : { tools })
  for (let turns = 1; ; turns += 1) {
    const answer = await trajectory.ask(seed === undefined ? ask : { ...ask, seed: seedOfTurn(seed, turns) })
    const turn = await environment.step(answer, trajectory)
    trajectory.reward += turn.reward ?? 0
    if (turnRewards) answer.choice.reward = turn.reward ?? 0
    Object.assign(trajectory.metrics, turn.metrics, { turns })
    if (turn.isDone === true || turns >= maxTurns) {
      trajectory.metrics['is_cut_off'] = turn.isDone !== true
      return trajectory
    }
    for (const message of turn.messages ?? []) trajectory.add(message)
  }
}

function seedOfTurn(seed: number, turn: number): number {
  return turn === 1 ? seed : createRng(`${seed} turn ${turn}`).integer(2 ** 31)
}

/** A function the model may call. */
export interface RunnableTool {
  readonly name: string
  readonly description: string
  /** JSON schema of the arguments. */
  readonly parameters: JsonObject
  /** Calls of it are held to `parameters`. Default true: a small model hardly ever calls rightly by itself. */
  readonly strict?: boolean
  /** Its result is shown to the model as text; what it throws, too, as `error: …`. */
  readonly run: (args: JsonObject) => MaybePromise<unknown>
}

/**
 * An environment of tools: every call is run and answered; an answer without a call ends the episode.
 *
 * @param setup.reward of the whole episode, asked once at its end; the metric `tool_errors` counts calls that failed
 */
export function createToolEnvironment(setup: {
  readonly messages: readonly Message[]
  readonly tools: readonly RunnableTool[]
  readonly reward: (trajectory: Trajectory, answer: Answer) => MaybePromise<number>
}): Environment {
  let errors = 0
  return {
    reset: () => ({ messages: setup.messages, tools: setup.tools.map(toTool) }),
    async step(answer, trajectory) {
      const metrics = () => ({ tool_errors: errors })
      if (answer.toolCalls.length === 0) {
        return { isDone: true, reward: await setup.reward(trajectory, answer), metrics: metrics() }
      }
      const messages: Message[] = []
      for (const call of answer.toolCalls) {
        const result = await runTool(setup.tools, call)
        if (result.isError) errors += 1
        messages.push({ role: 'tool', tool_call_id: call.id, name: call.name, content: result.text })
      }
      return { messages, metrics: metrics() }
    },
  }
}

async function runTool(
  tools: readonly RunnableTool[],
  call: ToolCall,
): Promise<{ readonly text: string; readonly isError: boolean }> {
  const tool = tools.find(({ name }) => name === call.name)
  if (tool === undefined) return { text: `error: there is no tool "${call.name}"`, isError: true }
  if (call.arguments === null) return { text: 'error: the arguments are not a JSON object', isError: true }
  try {
    const value = await tool.run(call.arguments)
    return { text: typeof value === 'string' ? value : JSON.stringify(value ?? null), isError: false }
  } catch (error) {
    return { text: `error: ${error instanceof Error ? error.message : String(error)}`, isError: true }
  }
}

function toTool({ name, description, parameters, strict = true }: RunnableTool): Tool {
  return { type: 'function', function: { name, description, parameters, strict } }
}
