/**
 * Grades one answer, or checks a grader without one. Models that grade are those that chat knows, and the teachers of
 * the settings; endpoints are at addresses that webhooks could have, too, and cost a key that may write.
 */
import { InvalidRequestError, NotFoundError } from '#base/errors/errors.js'
import type { JsonObject } from '#base/util/json.js'
import { createTurns } from '#base/util/turns.js'
import { chatRequestSchema } from '#contract/wire/chat-completions.js'
import { requireScope } from '#service/operations/access/tenant.js'
import { createAddressRules } from '#service/operations/address-rules.js'
import type { Principal, ServiceContext } from '#service/operations/context.js'
import type { ChatService } from '#service/operations/generation/chat/chat.js'
import { resolvePolicy } from '#service/operations/generation/chat/served-models.js'
import { checkGrader, singlesOf, sourcesOf } from './grading/check.js'
import { createPacer, type EndpointAccess } from './grading/endpoint.js'
import { type GradePython, grade } from './grading/grade.js'
import { type AskModel, withBounds } from './grading/model-grader.js'
import { toSample } from './grading/sample.js'
import { type Grader, readGrader } from './grading/spec.js'
import type { Outside } from './outside.js'
import type { PythonAccess } from './python-access.js'
import { toRunResult } from './run-result.js'
import type { RunGraderRequest, RunGraderResponse, ValidateGraderResponse } from './wire.js'

/** Each may take a second of the core that answers everybody; how many wait is bounded by the requests that brought them. */
const COMPARISONS = {
  what: 'comparisons of texts',
  atOnce: 1,
  spare: 1,
  mostWaiting: Number.POSITIVE_INFINITY,
  mostOfOneKey: Number.POSITIVE_INFINITY,
}

interface Asking {
  readonly principal: Principal
  readonly requestId: string
  readonly signal: AbortSignal
}

export function createGraderService(
  context: Pick<ServiceContext, 'clock' | 'db' | 'blobs' | 'baseModels' | 'lookUp'>,
  {
    chat,
    outside,
    python,
  }: { readonly chat: Pick<ChatService, 'create'>; readonly outside: Outside; readonly python: PythonAccess },
) {
  const { clock } = context
  const { teachers, variables } = outside
  const refusal = { code: 'grader_refused', param: 'grader.url', subject: 'url', flag: '--grader-host' }
  const rules = createAddressRules(outside.hosts, refusal, context.lookUp)
  const pacer = createPacer(clock)
  const comparisons = createTurns(COMPARISONS)

  /** Refuses what can be told before anything is asked. */
  async function assertAllowed(grader: Grader, principal: Principal): Promise<void> {
    for (const { at, each } of singlesOf(grader)) {
      if (each.type === 'endpoint') {
        requireScope(principal, 'write')
        checkUrl(each.url, `${at}.url`)
      } else if (each.type === 'python') {
        requireScope(principal, 'write')
        await python.open(`${at}.source`)
      } else if ('model' in each && !teachers.has(each.model))
        await assertModel(context, principal, { model: each.model, param: `${at}.model`, teachers })
    }
  }

  function checkUrl(url: string, param: string): void {
    try {
      rules.check(url)
    } catch (error) {
      if (!(error instanceof InvalidRequestError)) throw error
      throw new InvalidRequestError(error.code, error.message, { param, hint: error.hint })
    }
  }

  const accessFor = ({ entity }: Principal): EndpointAccess => ({
    address: async (url, signal) => await rules.resolve(rules.check(url), entity, signal),
    variable: (name) => variables.get(name),
    pacer,
  })

  const pythonFor =
    ({ entity }: Principal): GradePython =>
    async (source, namespaces, { signal }) =>
      await (await python.open('grader')).grade(source, namespaces, { owner: entity, signal })

  function askFor({ principal, requestId }: Asking): AskModel {
    return async (request, { signal }) => {
      const teacher = teachers.get(request.model)
      if (teacher !== undefined) return await teacher(request, { signal })
      const admitted = await chat.create(
        principal,
        // read as over HTTP, where a seed has 64 bits
        chatRequestSchema.parse(withBounds(request)),
        requestId,
        signal ?? new AbortController().signal,
      )
      return await admitted.response()
    }
  }

  return {
    async run(request: RunGraderRequest, asking: Asking): Promise<RunGraderResponse> {
      const grader = readGrader(request.grader)
      await assertAllowed(grader, asking.principal)
      const { item, model_sample: given } = request
      const begunMs = clock.monotonicMs()
      const sample = toSample(typeof given === 'string' ? given : (given as JsonObject))
      const { principal, signal } = asking
      const inTurn = async (compare: () => Promise<number>) => await comparisons.take(principal.entity, signal, compare)
      const means = { ask: askFor(asking), access: accessFor(principal), inTurn, signal, python: pythonFor(principal) }
      const graded = await grade(grader, { item: item ?? {}, sample }, means)
      return toRunResult(grader, graded, (clock.monotonicMs() - begunMs) / 1000)
    },
    async validate<T extends { readonly grader: ValidateGraderResponse['grader'] }>(
      request: T,
      principal: Principal,
      signal: AbortSignal,
    ): Promise<ValidateGraderResponse> {
      const grader = readGrader(request.grader)
      checkGrader(grader)
      await assertAllowed(grader, principal)
      const sources = sourcesOf(grader)
      for (const { source, param } of sources) {
        await (await python.open(param)).check(source, { param, owner: principal.entity, signal })
      }
      const isWarned = sources.length > 0 && python.warning !== null
      return { ...request, ...(isWarned ? { warnings: [python.warning] } : {}) }
    },
  }
}

/** @throws {NotFoundError} `grader_model_not_found` */
async function assertModel(
  context: Pick<ServiceContext, 'db' | 'blobs' | 'baseModels'>,
  principal: Principal,
  {
    model,
    param,
    teachers,
  }: { readonly model: string; readonly param: string; readonly teachers: Outside['teachers'] },
): Promise<void> {
  try {
    await resolvePolicy(context, principal, model)
  } catch (error) {
    if (!(error instanceof NotFoundError)) throw error
    const names = [...teachers.keys()]
    const known = names.length === 0 ? 'there are no teachers' : `teachers are ${names.join(', ')}`
    const own = context.baseModels.map(({ name }) => name).join(', ')
    throw new NotFoundError('grader_model_not_found', `no model ${model} grades here`, {
      param,
      hint: `a model of yours, as chat names it, or a base model (${own}); ${known}: trainyard serve --teacher names one`,
    })
  }
}
