/**
 * Rows of watched prompts and of what each step says to them. What waits for an answer is a row too: a server that stops forgets none.
 */
import type { Selectable } from 'kysely'
import { canonicalId } from '#base/util/ids.js'
import { PROBE_STATUSES, type ProbeStatus } from '#contract/wire/inference/probe-words.js'
import type { ProbeMessage } from '#contract/wire/inference/probes.js'
import { type Database, databaseNowMs } from '#service/storage/database.js'
import { type Page, type PageOptions, unknownCursor } from '#service/storage/paging.js'
import { readOneOf, storableText } from '#service/storage/row-values.js'
import { type ProbeAnswersTable, type ProbesTable, probeTables } from './tables.js'

export interface ProbeRecord {
  readonly id: string
  readonly modelId: string
  readonly keyId: string
  readonly messages: readonly ProbeMessage[]
  readonly maxTokens: number
  readonly createdAtMs: number
}

export interface ProbeAnswerRecord {
  readonly probeId: string
  readonly step: number
  readonly status: ProbeStatus
  readonly text: string | null
  readonly finishReason: string | null
  readonly completionTokens: number | null
  readonly checkpoint: string | null
  readonly error: string | null
  readonly createdAtMs: number
  readonly answeredAtMs: number | null
}

export async function insertProbe(db: Database, probe: Omit<ProbeRecord, 'createdAtMs'>): Promise<void> {
  await probeTables(db)
    .insertInto('probes')
    .values({
      id: probe.id,
      model_id: probe.modelId,
      key_id: probe.keyId,
      messages: JSON.stringify(probe.messages),
      max_tokens: probe.maxTokens,
      created_at_ms: databaseNowMs,
    })
    .execute()
}

/** Probes of a model, oldest first: there are few. */
export async function listProbes(db: Database, modelId: string): Promise<readonly ProbeRecord[]> {
  const rows = await probeTables(db)
    .selectFrom('probes')
    .selectAll()
    .where('model_id', '=', modelId)
    .orderBy('id')
    .execute()
  return rows.map(toProbe)
}

export async function findProbe(db: Database, modelId: string, id: string): Promise<ProbeRecord | null> {
  const row = await probeTables(db)
    .selectFrom('probes')
    .selectAll()
    .where('model_id', '=', modelId)
    .where('id', '=', canonicalId(id))
    .executeTakeFirst()
  return row === undefined ? null : toProbe(row)
}

export async function deleteProbe(db: Database, id: string): Promise<void> {
  await probeTables(db).deleteFrom('probes').where('id', '=', id).execute()
}

/** Answers at some steps, or those of the base model and the newest step, lowest step first. */
export async function answersAt(
  db: Database,
  probeId: string,
  steps: readonly number[] | null,
): Promise<readonly ProbeAnswerRecord[]> {
  let query = probeTables(db).selectFrom('probe_answers').selectAll().where('probe_id', '=', probeId)
  if (steps !== null) query = query.where('step', 'in', [...new Set(steps)])
  else {
    query = query.where((where) =>
      where.or([
        where('step', '=', 0),
        where(
          'step',
          '=',
          where
            .selectFrom('probe_answers as newest')
            .select((e) => e.fn.max('newest.step').as('step'))
            .where('newest.probe_id', '=', probeId),
        ),
      ]),
    )
  }
  return (await query.orderBy('step').execute()).map(toAnswer)
}

/** Answers by step. @param options.after the step behind which the page begins */
export async function listAnswers(
  db: Database,
  probeId: string,
  options: Pick<PageOptions, 'limit'> & { readonly after?: number | undefined; readonly order: 'asc' | 'desc' },
): Promise<Page<ProbeAnswerRecord>> {
  const { after, order, limit } = options
  let query = probeTables(db).selectFrom('probe_answers').selectAll().where('probe_id', '=', probeId)
  if (after !== undefined) {
    const cursor = await query.where('step', '=', after).executeTakeFirst()
    if (cursor === undefined) throw unknownCursor(answerId({ probeId, step: after }))
    query = query.where('step', order === 'asc' ? '>' : '<', after)
  }
  const rows = await query
    .orderBy('step', order)
    .limit(limit + 1)
    .execute()
  return { items: rows.slice(0, limit).map(toAnswer), hasMore: rows.length > limit }
}

/** What the API calls an answer. */
export function answerId({ probeId, step }: Pick<ProbeAnswerRecord, 'probeId' | 'step'>): string {
  return `${probeId}.step${step}`
}

/** What waits longest of a base model, with whose it is; null when nothing does. */
export async function nextQueued(
  db: Database,
  baseModel: string,
): Promise<{ readonly probe: ProbeRecord; readonly step: number; readonly owner: ModelAddress } | null> {
  const row = await probeTables(db)
    .selectFrom('probe_answers')
    .innerJoin('probes', 'probes.id', 'probe_answers.probe_id')
    .innerJoin('models', 'models.id', 'probes.model_id')
    .selectAll('probes')
    .select(['probe_answers.step', 'models.entity', 'models.project', 'models.name'])
    .where('probe_answers.status', '=', 'queued')
    .where('models.base_model', '=', baseModel)
    .orderBy('probe_answers.created_at_ms')
    .orderBy('probe_answers.step')
    .limit(1)
    .executeTakeFirst()
  if (row === undefined) return null
  const { step, entity, project, name } = row
  return { probe: toProbe(row), step, owner: { entity, project, name } }
}

interface ModelAddress {
  readonly entity: string
  readonly project: string
  readonly name: string
}

/** Puts an answer that cannot be had now behind all others. */
export async function putOffAnswer(db: Database, probeId: string, step: number): Promise<void> {
  await probeTables(db)
    .updateTable('probe_answers')
    .set({ created_at_ms: databaseNowMs })
    .where('probe_id', '=', probeId)
    .where('step', '=', step)
    .execute()
}

/** Stores what a step said, or why it said nothing. */
export async function endAnswer(
  db: Database,
  { probeId, step }: { readonly probeId: string; readonly step: number },
  end: Pick<ProbeAnswerRecord, 'text' | 'finishReason' | 'completionTokens' | 'checkpoint' | 'error'>,
): Promise<void> {
  await probeTables(db)
    .updateTable('probe_answers')
    .set({
      status: end.error === null ? 'answered' : 'failed',
      text: storableText(end.text),
      finish_reason: end.finishReason,
      completion_tokens: end.completionTokens,
      checkpoint: end.checkpoint,
      error: storableText(end.error),
      answered_at_ms: databaseNowMs,
    })
    .where('probe_id', '=', probeId)
    .where('step', '=', step)
    .where('status', '=', 'queued')
    .execute()
}

function toProbe(row: Selectable<ProbesTable>): ProbeRecord {
  return {
    id: row.id,
    modelId: row.model_id,
    keyId: row.key_id,
    messages: JSON.parse(row.messages) as ProbeMessage[],
    maxTokens: row.max_tokens,
    createdAtMs: row.created_at_ms,
  }
}

function toAnswer(row: Selectable<ProbeAnswersTable>): ProbeAnswerRecord {
  return {
    probeId: row.probe_id,
    step: row.step,
    status: readOneOf(PROBE_STATUSES, row.status, 'status of an answer to a watched prompt'),
    text: row.text,
    finishReason: row.finish_reason,
    completionTokens: row.completion_tokens,
    checkpoint: row.checkpoint,
    error: row.error,
    createdAtMs: row.created_at_ms,
    answeredAtMs: row.answered_at_ms,
  }
}
