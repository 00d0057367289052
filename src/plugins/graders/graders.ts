/**
 * Grades one answer, or checks a grader without one. Models that grade are those that chat knows, and the teachers of the settings.
 */
import { NotFoundError } from '#base/errors/errors.js'
import type { JsonObject } from '#base/util/json.js'
import type { ChatRequest } from '#contract/wire/chat-completions.js'
import { checkGrader, modelsOf } from '#sdk/graders/check.js'
import { grade } from '#sdk/graders/grade.js'
import type { AskModel } from '#sdk/graders/model-grader.js'
import { toRunResult } from '#sdk/graders/run-result.js'
import { toSample } from '#sdk/graders/sample.js'
import { type Grader, readGrader } from '#sdk/graders/spec.js'
import type { Principal, ServiceContext } from '#service/operations/context.js'
import type { ChatService } from '#service/operations/generation/chat/chat.js'
import { resolvePolicy } from '#service/operations/generation/chat/served-models.js'
import type { Teachers } from './teachers.js'
import type { RunGraderRequest, RunGraderResponse } from './wire.js'

interface Asking {
  readonly principal: Principal
  readonly requestId: string
  readonly signal: AbortSignal
}

export function createGraderService(
  context: Pick<ServiceContext, 'clock' | 'db' | 'blobs' | 'baseModels'>,
  { chat, teachers }: { readonly chat: Pick<ChatService, 'create'>; readonly teachers: Teachers },
) {
  const { clock } = context

  /** @throws {NotFoundError} `grader_model_not_found` */
  async function assertModels(grader: Grader, principal: Principal): Promise<void> {
    for (const model of modelsOf(grader).filter((name) => !teachers.has(name))) {
      try {
        await resolvePolicy(context, principal, model)
      } catch (error) {
        if (!(error instanceof NotFoundError)) throw error
        const names = [...teachers.keys()]
        const known = names.length === 0 ? 'there are no teachers' : `teachers are ${names.join(', ')}`
        const own = context.baseModels.map(({ name }) => name).join(', ')
        throw new NotFoundError('grader_model_not_found', `no model ${model} grades here`, {
          param: 'grader.model',
          hint: `a model of yours, as chat names it, or a base model (${own}); ${known}: trainyard serve --teacher names one`,
        })
      }
    }
  }

  function askFor({ principal, requestId }: Asking): AskModel {
    return async (request, { signal }) => {
      const teacher = teachers.get(request.model)
      if (teacher !== undefined) return await teacher(request, { signal })
      const admitted = await chat.create(
        principal,
        request as ChatRequest,
        requestId,
        signal ?? new AbortController().signal,
      )
      return await admitted.response()
    }
  }

  return {
    async run(request: RunGraderRequest, asking: Asking): Promise<RunGraderResponse> {
      const grader = readGrader(request.grader)
      await assertModels(grader, asking.principal)
      const { item, model_sample: given } = request
      const begunMs = clock.nowMs()
      const sample = toSample(typeof given === 'string' ? given : (given as JsonObject))
      const { signal } = asking
      const graded = await grade(grader, { item: item ?? {}, sample }, { ask: askFor(asking), signal })
      return toRunResult(grader, graded, (clock.nowMs() - begunMs) / 1000)
    },
    async validate<T extends { readonly grader: unknown }>(request: T, principal: Principal): Promise<T> {
      const grader = readGrader(request.grader)
      checkGrader(grader)
      await assertModels(grader, principal)
      return request
    },
  }
}
