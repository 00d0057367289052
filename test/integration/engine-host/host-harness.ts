/**
 * Drives a host by its commands and collects its events, in this process or in a child.
 */
import type { GenerateCommand, HostCommand, HostEvent, SamplingParameters } from '#inference/host/protocol.js'

export const SAMPLING: SamplingParameters = {
  temperature: 0,
  topP: 1,
  topK: 0,
  minP: 0,
  repetitionPenalty: 1,
  frequencyPenalty: 0,
  presencePenalty: 0,
  logitBias: null,
  allowedTokenIds: null,
  seed: null,
  n: 1,
  maxTokens: 12,
  minTokens: 0,
  stop: [],
  stopTokenIds: [],
  includeStopStrInOutput: false,
  ignoreEos: false,
  skipSpecialTokens: true,
  topLogprobs: 0,
}

/** A generate command for one user message. */
export function ask(id: string, content: string, sampling: Partial<SamplingParameters> = {}): GenerateCommand {
  return {
    type: 'generate',
    id,
    messages: [{ role: 'user', content }],
    tools: null,
    template: {
      addGenerationPrompt: true,
      continueFinalMessage: false,
      addSpecialTokens: false,
      kwargs: {},
      documents: null,
    },
    truncatePromptTokens: null,
    sampling: { ...SAMPLING, ...sampling },
    grammar: null,
    adapter: null,
    cacheSalt: null,
  }
}

/** Events as they arrive, and promises of those that are waited for. */
export class EventLog {
  readonly events: HostEvent[] = []
  readonly #waiting: {
    readonly matches: (event: HostEvent) => boolean
    readonly resolve: (event: HostEvent) => void
  }[] = []

  readonly push = (event: HostEvent): void => {
    this.events.push(event)
    for (const waiter of this.#waiting.filter(({ matches }) => matches(event))) {
      this.#waiting.splice(this.#waiting.indexOf(waiter), 1)
      waiter.resolve(event)
    }
  }

  /** The first event, past or future, that matches. */
  when(matches: (event: HostEvent) => boolean): Promise<HostEvent> {
    const past = this.events.find(matches)
    if (past !== undefined) return Promise.resolve(past)
    return new Promise((resolve) => this.#waiting.push({ matches, resolve }))
  }

  /** The end of a request. */
  ended(id: string): Promise<HostEvent> {
    return this.when((event) => (event.type === 'finished' || event.type === 'failed') && event.id === id)
  }

  deltas(id: string, choice = 0) {
    return this.events.filter((event) => event.type === 'delta').filter((e) => e.id === id && e.choice === choice)
  }

  /** Joined text, ids and the end of a choice. */
  answer(id: string, choice = 0) {
    const deltas = this.deltas(id, choice)
    const last = deltas.at(-1)
    return {
      text: deltas.map((delta) => delta.text).join(''),
      ids: deltas.flatMap((delta) => delta.tokenIds),
      logprobs: deltas.flatMap((delta) => delta.logprobs),
      finishReason: last?.finishReason ?? null,
      stopReason: last?.stopReason ?? null,
    }
  }
}

/** Sends a request and waits for its end. */
export async function converse(
  send: (command: HostCommand) => void,
  log: EventLog,
  command: GenerateCommand,
): Promise<ReturnType<EventLog['answer']>> {
  send(command)
  await log.ended(command.id)
  return log.answer(command.id)
}
